// SPDX-License-Identifier: MIT
//
// The emulated libcuda.so.1: the symbols that a program finds in it at run time, and the properties
// of GPUs that it reports.
#include <dlfcn.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cuda_test_world.hpp"

namespace hbmwire::test {
namespace {

using ::testing::MatchesRegex;

// The results of cuGetProcAddress_v2: values of CUdriverProcAddressQueryResult, which the project's
// cuda.h leaves out.
constexpr int kProcAddressSuccess = 0;
constexpr int kProcAddressSymbolNotFound = 1;
constexpr int kProcAddressVersionNotSufficient = 2;

class CudaAbi : public CudaTest {};

TEST_F(CudaAbi, TheVersionsThatProgramsLinkAreExported) {
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << ::dlerror();
  for (const char* name : {"cuMemAlloc_v2", "cuMemFree_v2", "cuCtxPushCurrent_v2",
                           "cuCtxPopCurrent_v2", "cuMemcpyHtoD_v2", "cuStreamDestroy_v2",
                           "cuDevicePrimaryCtxRelease_v2", "cuMemGetHandleForAddressRange",
                           "cuIpcGetMemHandle", "cuIpcOpenMemHandle_v2", "cuIpcCloseMemHandle"})
    EXPECT_NE(::dlsym(library, name), nullptr) << name;
  // First versions of functions that now have a _v2. They are exported, but not modelled.
  for (const char* name : {"cuMemAlloc", "cuCtxCreate", "cuMemcpyHtoD", "cuIpcOpenMemHandle"}) {
    auto* const function = reinterpret_cast<CUresult (*)(int)>(::dlsym(library, name));
    ASSERT_NE(function, nullptr) << name;
    EXPECT_EQ(function(0), CUDA_ERROR_NOT_SUPPORTED) << name;
  }
  ::dlclose(library);
}

TEST_F(CudaAbi, ProcAddressesFollowTheVersion) {
  void* function = nullptr;
  EXPECT_EQ(cuGetProcAddress("cuMemAlloc", &function, 3020, 0), CUDA_SUCCESS);
  EXPECT_EQ(function, reinterpret_cast<void*>(cuMemAlloc_v2));
  int status = -1;
  EXPECT_EQ(cuGetProcAddress_v2("cuMemGetHandleForAddressRange", &function, 11060, 0, &status),
            CUDA_SUCCESS);
  EXPECT_EQ(function, nullptr);
  EXPECT_EQ(status, kProcAddressVersionNotSufficient);
  EXPECT_EQ(cuGetProcAddress_v2("cuIpcOpenMemHandle", &function, 10020, 0, &status), CUDA_SUCCESS);
  EXPECT_EQ(status, kProcAddressVersionNotSufficient)
      << "CUDA 10.2 had the first version, which is not modelled";
  EXPECT_EQ(cuGetProcAddress("cuIpcOpenMemHandle", &function, 11000, 0), CUDA_SUCCESS);
  EXPECT_EQ(function, reinterpret_cast<void*>(cuIpcOpenMemHandle_v2));
  EXPECT_EQ(cuGetProcAddress("cuIpcGetMemHandle", &function, 4010, 0), CUDA_SUCCESS);
  EXPECT_EQ(function, reinterpret_cast<void*>(cuIpcGetMemHandle));
  EXPECT_EQ(cuGetProcAddress("cuIpcCloseMemHandle", &function, 4010, 0), CUDA_SUCCESS);
  EXPECT_EQ(function, reinterpret_cast<void*>(cuIpcCloseMemHandle));
  EXPECT_EQ(cuGetProcAddress("cuDeviceGetUuid", &function, 11030, 0), CUDA_SUCCESS);
  EXPECT_EQ(function, reinterpret_cast<void*>(cuDeviceGetUuid));
  EXPECT_EQ(cuGetProcAddress("cuDeviceGetUuid", &function, 12080, 0), CUDA_SUCCESS);
  EXPECT_EQ(function, reinterpret_cast<void*>(cuDeviceGetUuid_v2));
  EXPECT_EQ(cuGetProcAddress_v2("cuModuleLoad", &function, 12080, 0, &status), CUDA_SUCCESS);
  EXPECT_EQ(status, kProcAddressSuccess) << "an exported function is found, modelled or not";
  EXPECT_EQ(reinterpret_cast<CUresult (*)(void*, const char*)>(function)(nullptr, ""),
            CUDA_ERROR_NOT_SUPPORTED);
  // Names with a version are no names for cuGetProcAddress.
  EXPECT_EQ(cuGetProcAddress("cuMemAlloc_v2", &function, 12080, 0), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(cuGetProcAddress_v2("cuNonsense", &function, 12080, 0, &status), CUDA_SUCCESS);
  EXPECT_EQ(status, kProcAddressSymbolNotFound);
  EXPECT_EQ(cuGetProcAddress("cuNonsense", &function, 12080, 0), CUDA_ERROR_NOT_FOUND);
}

TEST_F(CudaAbi, ErrorsHaveNames) {
  const char* text = nullptr;
  EXPECT_EQ(cuGetErrorName(CUDA_ERROR_NOT_SUPPORTED, &text), CUDA_SUCCESS);
  EXPECT_STREQ(text, "CUDA_ERROR_NOT_SUPPORTED");
  EXPECT_EQ(cuGetErrorString(CUDA_ERROR_INVALID_VALUE, &text), CUDA_SUCCESS);
  EXPECT_STREQ(text, "invalid argument");
  EXPECT_EQ(cuGetErrorName(static_cast<CUresult>(998), &text), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(text, nullptr);
}

TEST_F(CudaAbi, DevicesAreThoseOfSysfs) {
  int count = 0;
  ASSERT_EQ(cuDeviceGetCount(&count), CUDA_SUCCESS);
  ASSERT_EQ(count, 2);
  for (int device = 0; device < count; ++device) {
    char shown[32] = {};
    ASSERT_EQ(cuDeviceGetPCIBusId(shown, sizeof shown, device), CUDA_SUCCESS);
    EXPECT_THAT(shown, MatchesRegex("[0-9A-F]{4}:[0-9A-F]{2}:[0-9A-F]{2}\\.[0-9]"));
    std::string lower(shown);
    for (char& c : lower) c = static_cast<char>(std::tolower(c));
    const std::filesystem::path pci =
        std::filesystem::path(std::getenv("SYSFS_PATH")) / "bus/pci/devices" / lower;
    std::string name;
    std::ifstream(pci / "emulated_as") >> name;
    EXPECT_EQ(name, "cuda" + std::to_string(device));
    CUdevice found = -1;
    EXPECT_EQ(cuDeviceGetByPCIBusId(&found, lower.c_str()), CUDA_SUCCESS);
    EXPECT_EQ(found, device);
    int bus = 0;
    EXPECT_EQ(cuDeviceGetAttribute(&bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, device), CUDA_SUCCESS);
    // The bus follows the domain: dddd:bb:dd.f
    EXPECT_EQ(bus, std::stoi(lower.substr(5, 2), nullptr, 16));
  }
  CUdevice none = -1;
  EXPECT_EQ(cuDeviceGetByPCIBusId(&none, "ffff:00:00.0"), CUDA_ERROR_INVALID_DEVICE);
  std::size_t bytes = 0;
  EXPECT_EQ(cuDeviceTotalMem_v2(&bytes, 1), CUDA_SUCCESS);
  EXPECT_EQ(bytes, 80ULL << 30U);
  EXPECT_EQ(cuDeviceTotalMem_v2(&bytes, 2), CUDA_ERROR_INVALID_DEVICE);
}

TEST_F(CudaAbi, AttributesFollowTheTraitsOfTheDriver) {
  const auto value = [](CUdevice_attribute attribute) {
    int answer = -1;
    EXPECT_EQ(cuDeviceGetAttribute(&answer, attribute, 0), CUDA_SUCCESS);
    return answer;
  };
  EXPECT_EQ(value(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED), 1);
  EXPECT_EQ(value(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED), 1);
  EXPECT_EQ(value(CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED), 1);
  EXPECT_EQ(value(CU_DEVICE_ATTRIBUTE_INTEGRATED), 0);
  EXPECT_EQ(value(CU_DEVICE_ATTRIBUTE_WARP_SIZE), 32);
  EXPECT_EQ(value(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT), 132);
  int major = 0;
  int minor = -1;
  EXPECT_EQ(cuDeviceComputeCapability(&major, &minor, 0), CUDA_SUCCESS);
  EXPECT_EQ(major, value(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
  EXPECT_EQ(minor, value(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
  CUuuid first{};
  CUuuid second{};
  EXPECT_EQ(cuDeviceGetUuid_v2(&first, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuDeviceGetUuid_v2(&second, 1), CUDA_SUCCESS);
  EXPECT_NE(std::string(first.bytes, 16), std::string(second.bytes, 16));
  EXPECT_EQ(value(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING),
            CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER);
  const WithTrait closed("closed_modules");
  const WithTrait integrated("integrated");
  EXPECT_EQ(value(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED), 0);
  EXPECT_EQ(value(CU_DEVICE_ATTRIBUTE_INTEGRATED), 1);
  EXPECT_EQ(value(CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED), 0);
}

}  // namespace
}  // namespace hbmwire::test
