// SPDX-License-Identifier: MIT
#include "cuda_application.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <bit>
#include <stdexcept>
#include <string>

namespace hbmwire::test {
namespace {

using Address = unsigned long long;

template <class... Argument>
int call(const char* name, Argument... arguments) {
  static void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  auto* const function =
      library == nullptr ? nullptr : std::bit_cast<int (*)(Argument...)>(::dlsym(library, name));
  if (function == nullptr) throw std::runtime_error(std::string("no ") + name);
  return function(arguments...);
}

template <class... Argument>
void must_call(const char* name, Argument... arguments) {
  if (const int result = call(name, arguments...); result != 0)
    throw std::runtime_error(std::string(name) + ": " + std::to_string(result));
}

/// CUmemAllocationProp and CUmemAccessDesc.
struct Properties {
  int type = 1;  // pinned
  int handle_types = 0;
  int location_type = 1;  // a device
  int location = 0;
  void* metadata = nullptr;
  unsigned char compression = 0;
  unsigned char rdma_capable = 0;
  std::array<unsigned char, 6> reserved{};
};

struct AccessDescription {
  int location_type = 1;
  int location = 0;
  int flags = 3;  // read and write
};

static_assert(sizeof(Properties) == 32 && sizeof(AccessDescription) == 12);

constexpr std::size_t kGranule = 2U << 20U;

}  // namespace

CudaApplication::CudaApplication(int device) : device_(device) {
  must_call("cuInit", 0U);
  must_call("cuDevicePrimaryCtxRetain", &context_, device);
  must_call("cuCtxPushCurrent_v2", context_);
}

CudaApplication::~CudaApplication() {
  call("cuCtxSynchronize");
  for (const auto& [address, bytes] : mappings_) {
    call("cuMemUnmap", Address{address}, bytes);
    call("cuMemAddressFree", Address{address}, bytes);
  }
  for (const std::uint64_t address : allocations_) call("cuMemFree_v2", Address{address});
  for (void* memory : host_) call("cuMemFreeHost", memory);
  call("cuCtxPopCurrent_v2", static_cast<void**>(nullptr));
  call("cuDevicePrimaryCtxRelease_v2", device_);
}

std::uint64_t CudaApplication::allocate(std::size_t bytes) {
  Address address = 0;
  must_call("cuMemAlloc_v2", &address, bytes);
  allocations_.push_back(address);
  return address;
}

std::uint64_t CudaApplication::allocate_managed(std::size_t bytes) {
  Address address = 0;
  must_call("cuMemAllocManaged", &address, bytes, 1U);  // CU_MEM_ATTACH_GLOBAL
  allocations_.push_back(address);
  return address;
}

std::uint64_t CudaApplication::allocate_host(std::size_t bytes) {
  void* memory = nullptr;
  must_call("cuMemAllocHost_v2", &memory, bytes);
  host_.push_back(memory);
  return std::bit_cast<std::uint64_t>(memory);
}

void CudaApplication::free(std::uint64_t address) {
  must_call("cuMemFree_v2", Address{address});
  std::erase(allocations_, address);
}

std::uint64_t CudaApplication::map(const std::vector<unsigned>& granules, bool rdma_capable) {
  std::size_t total = 0;
  for (const unsigned count : granules) total += count * kGranule;
  Address base = 0;
  must_call("cuMemAddressReserve", &base, total, std::size_t{0}, Address{0}, 0ULL);
  Properties properties;
  properties.location = device_;
  properties.rdma_capable = rdma_capable ? 1 : 0;
  Address at = base;
  for (const unsigned count : granules) {
    Address handle = 0;
    must_call("cuMemCreate", &handle, count * kGranule, static_cast<const Properties*>(&properties),
              0ULL);
    must_call("cuMemMap", at, count * kGranule, std::size_t{0}, handle, 0ULL);
    must_call("cuMemRelease", handle);
    at += count * kGranule;
  }
  AccessDescription access;
  access.location = device_;
  must_call("cuMemSetAccess", base, total, static_cast<const AccessDescription*>(&access),
            std::size_t{1});
  mappings_.push_back({base, total});
  return base;
}

void CudaApplication::write(std::uint64_t address, std::span<const std::byte> bytes) {
  must_call("cuMemcpyHtoD_v2", Address{address}, static_cast<const void*>(bytes.data()),
            bytes.size());
}

bool CudaApplication::is_current() const {
  void* context = nullptr;
  must_call("cuCtxGetCurrent", &context);
  return context == context_;
}

bool CudaApplication::has_current() {
  void* context = nullptr;
  must_call("cuCtxGetCurrent", &context);
  return context != nullptr;
}

bool CudaApplication::has_context(int device) {
  unsigned flags = 0;
  int active = 0;
  must_call("cuDevicePrimaryCtxGetState", device, &flags, &active);
  return active != 0;
}

CudaTrait::CudaTrait(const char* name) : name_(name) {
  must_call("hbmwire_cuda_set_trait", name, 1);
}

CudaTrait::~CudaTrait() { call("hbmwire_cuda_set_trait", name_, 0); }

}  // namespace hbmwire::test
