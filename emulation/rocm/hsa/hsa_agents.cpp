// SPDX-License-Identifier: MIT
//
// ROCr: initialisation, the machine and its agents.
#include <cstdio>
#include <cstring>
#include <string>

#include "emulation/rocm/hsa/session.hpp"

using namespace hbmwire::emulation;
using namespace hbmwire::emulation::rocm;

namespace {

constexpr std::size_t kNameBytes = 64;  // for every name of an agent
constexpr const char* kGpuName = "gfx942";
constexpr const char* kGpuProduct = "AMD Instinct MI300X (emulated)";

hsa_status_t answer_name(void* to, const char* name) {
  std::memset(to, 0, kNameBytes);
  std::strncpy(static_cast<char*>(to), name, kNameBytes - 1);
  return HSA_STATUS_SUCCESS;
}

/// The two numbers that ROCr uses for "dddd:bb:dd.f".
struct PciNumbers {
  std::uint32_t domain = 0;
  std::uint32_t bdf = 0;
};

PciNumbers pci_numbers(const std::string& address) {
  unsigned domain = 0;
  unsigned bus = 0;
  unsigned device = 0;
  unsigned function = 0;
  if (std::sscanf(address.c_str(), "%x:%x:%x.%x", &domain, &bus, &device, &function) != 4)
    return {};
  return {.domain = domain, .bdf = bus << 8U | device << 3U | function};
}

hsa_status_t host_info(hsa_agent_info_t attribute, void* value) {
  switch (attribute) {
    case HSA_AGENT_INFO_NAME:
    case HSA_AMD_AGENT_INFO_PRODUCT_NAME:
      return answer_name(value, "emulated host");
    case HSA_AGENT_INFO_VENDOR_NAME:
      return answer_name(value, "CPU");
    case HSA_AGENT_INFO_DEVICE:
      return answer(value, HSA_DEVICE_TYPE_CPU);
    case HSA_AGENT_INFO_NODE:
    case HSA_AMD_AGENT_INFO_DRIVER_NODE_ID:
    case HSA_AMD_AGENT_INFO_BDFID:
    case HSA_AMD_AGENT_INFO_DOMAIN:
      return answer(value, std::uint32_t{0});
    default:
      return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
}

hsa_status_t memory_left(unsigned gpu, void* value) {
  GpuMemory* const memory = devices()[gpu]->memory();
  std::uint64_t bytes = 0;
  if (memory == nullptr || memory->free_bytes(bytes) != 0) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  return answer(value, bytes);
}

hsa_status_t gpu_info(unsigned gpu, hsa_agent_info_t attribute, void* value) {
  const Gpu& known = devices()[gpu]->gpu();
  const PciNumbers pci = pci_numbers(known.pci_address);
  switch (attribute) {
    case HSA_AGENT_INFO_NAME:
      return answer_name(value, kGpuName);
    case HSA_AMD_AGENT_INFO_PRODUCT_NAME:
      return answer_name(value, kGpuProduct);
    case HSA_AGENT_INFO_VENDOR_NAME:
      return answer_name(value, "AMD");
    case HSA_AGENT_INFO_DEVICE:
      return answer(value, HSA_DEVICE_TYPE_GPU);
    case HSA_AGENT_INFO_FEATURE:
      return answer(value, std::uint32_t{1});  // runs kernels
    case HSA_AGENT_INFO_WAVEFRONT_SIZE:
      return answer(value, std::uint32_t{64});
    case HSA_AMD_AGENT_INFO_COMPUTE_UNIT_COUNT:
      return answer(value, std::uint32_t{304});
    case HSA_AGENT_INFO_NODE:
    case HSA_AMD_AGENT_INFO_DRIVER_NODE_ID:
      return answer(value, std::uint32_t{gpu + 1});  // the host is node 0
    case HSA_AMD_AGENT_INFO_CHIP_ID:
      return answer(value, std::uint32_t{known.pci_device_id});
    case HSA_AMD_AGENT_INFO_BDFID:
      return answer(value, pci.bdf);
    case HSA_AMD_AGENT_INFO_DOMAIN:
      return answer(value, pci.domain);
    case HSA_AMD_AGENT_INFO_UUID: {
      constexpr std::size_t kUuidBytes = 21;   // "GPU-", 16 digits and the NUL
      constexpr unsigned kFirstUuid = 0xe700;  // any number: GPUs must only differ
      std::snprintf(static_cast<char*>(value), kUuidBytes, "GPU-%016x", kFirstUuid + gpu);
      return HSA_STATUS_SUCCESS;
    }
    case HSA_AMD_AGENT_INFO_MEMORY_AVAIL:
      return memory_left(gpu, value);
    case HSA_AMD_AGENT_INFO_NEAREST_CPU:
      return answer(value, agent_handle(kHost));
    default:
      return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
}

}  // namespace

hsa_status_t hsa_init(void) {
  try {
    const hsa_status_t status = injected_status("hsa_init");
    return status != HSA_STATUS_SUCCESS ? status : Runtime::instance().acquire();
  } catch (const std::exception&) {
    return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  }
}

hsa_status_t hsa_shut_down(void) {
  const hsa_status_t status = injected_status("hsa_shut_down");
  return status != HSA_STATUS_SUCCESS ? status : Runtime::instance().release();
}

hsa_status_t hsa_status_string(hsa_status_t status, const char** status_string) {
  if (status_string == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  switch (status) {
    case HSA_STATUS_SUCCESS:
      *status_string = "HSA_STATUS_SUCCESS";
      break;
    case HSA_STATUS_INFO_BREAK:
      *status_string = "HSA_STATUS_INFO_BREAK";
      break;
    case HSA_STATUS_ERROR:
      *status_string = "HSA_STATUS_ERROR";
      break;
    case HSA_STATUS_ERROR_INVALID_ARGUMENT:
      *status_string = "HSA_STATUS_ERROR_INVALID_ARGUMENT";
      break;
    case HSA_STATUS_ERROR_INVALID_ALLOCATION:
      *status_string = "HSA_STATUS_ERROR_INVALID_ALLOCATION";
      break;
    case HSA_STATUS_ERROR_INVALID_AGENT:
      *status_string = "HSA_STATUS_ERROR_INVALID_AGENT";
      break;
    case HSA_STATUS_ERROR_OUT_OF_RESOURCES:
      *status_string = "HSA_STATUS_ERROR_OUT_OF_RESOURCES";
      break;
    case HSA_STATUS_ERROR_NOT_INITIALIZED:
      *status_string = "HSA_STATUS_ERROR_NOT_INITIALIZED";
      break;
    default:
      return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_system_get_info(hsa_system_info_t attribute, void* value) {
  return entry_point("hsa_system_get_info", [&](Session&) {
    if (value == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    switch (attribute) {
      case HSA_SYSTEM_INFO_VERSION_MAJOR:
      case HSA_AMD_SYSTEM_INFO_EXT_VERSION_MAJOR:
        return answer(value, std::uint16_t{1});
      case HSA_SYSTEM_INFO_VERSION_MINOR:
        return answer(value, std::uint16_t{18});
      case HSA_AMD_SYSTEM_INFO_EXT_VERSION_MINOR:
        return answer(value, std::uint16_t{9});
      case HSA_SYSTEM_INFO_TIMESTAMP_FREQUENCY:
        return answer(value, std::uint64_t{1'000'000'000});
      case HSA_AMD_SYSTEM_INFO_DMABUF_SUPPORTED:
        return answer(value, true);
      case HSA_AMD_SYSTEM_INFO_SVM_SUPPORTED:
      case HSA_AMD_SYSTEM_INFO_VIRTUAL_MEM_API_SUPPORTED:
        return answer(value, false);
      default:
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
  });
}

// The extensions (images, finalizer, code object loader, profiling) are not modelled.
hsa_status_t hsa_system_extension_supported(uint16_t /*extension*/, uint16_t /*version_major*/,
                                            uint16_t /*version_minor*/, bool* result) {
  return entry_point("hsa_system_extension_supported", [&](Session&) {
    return result == nullptr ? HSA_STATUS_ERROR_INVALID_ARGUMENT : answer(result, false);
  });
}

hsa_status_t hsa_system_major_extension_supported(uint16_t /*extension*/,
                                                  uint16_t /*version_major*/,
                                                  uint16_t* version_minor, bool* result) {
  return entry_point("hsa_system_major_extension_supported", [&](Session&) {
    if (version_minor == nullptr || result == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    return answer(result, false);
  });
}

hsa_status_t hsa_iterate_agents(hsa_status_t (*callback)(hsa_agent_t agent, void* data),
                                void* data) {
  return entry_point("hsa_iterate_agents", [&](Session&) {
    if (callback == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    hsa_status_t status = callback(agent_handle(kHost), data);
    for (unsigned i = 0; i < devices().size() && status == HSA_STATUS_SUCCESS; ++i)
      status = callback(agent_handle(i), data);
    return status;
  });
}

hsa_status_t hsa_agent_get_info(hsa_agent_t agent, hsa_agent_info_t attribute, void* value) {
  return entry_point("hsa_agent_get_info", [&](Session&) {
    const auto owner = agent_owner(agent);
    if (!owner) return HSA_STATUS_ERROR_INVALID_AGENT;
    if (value == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    return *owner == kHost ? host_info(attribute, value) : gpu_info(*owner, attribute, value);
  });
}
