// SPDX-License-Identifier: MIT
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <string>
#include <vector>

#include "hip_world.hpp"

namespace hbmwire::test {
namespace {

TEST_F(Hip, DevicesAreFoundByTheirPciAddresses) {
  int count = 0;
  ASSERT_EQ(hipGetDeviceCount(&count), hipSuccess);
  ASSERT_EQ(count, 2);
  for (int device = 0; device < count; ++device) {
    std::array<char, 13> address{};  // "dddd:bb:dd.f"
    ASSERT_EQ(hipDeviceGetPCIBusId(address.data(), address.size(), device), hipSuccess);
    int found = -1;
    EXPECT_EQ(hipDeviceGetByPCIBusId(&found, address.data()), hipSuccess);
    EXPECT_EQ(found, device);
    int bus = 0;
    EXPECT_EQ(hipDeviceGetAttribute(&bus, hipDeviceAttributePciBusId, device), hipSuccess);
    EXPECT_EQ(bus, std::stoi(std::string(address.data() + 5, 2), nullptr, 16));
  }
  std::array<char, 12> too_small{};
  EXPECT_EQ(hipDeviceGetPCIBusId(too_small.data(), too_small.size(), 0), hipErrorInvalidValue);
  int none = 0;
  EXPECT_EQ(hipDeviceGetByPCIBusId(&none, "ffff:00:00.0"), hipErrorInvalidValue);
  EXPECT_EQ(hipSetDevice(2), hipErrorInvalidDevice);
  int large_bar = 0;
  EXPECT_EQ(hipDeviceGetAttribute(&large_bar, hipDeviceAttributeIsLargeBar, 0), hipSuccess);
  EXPECT_EQ(large_bar, 1);
}

TEST_F(Hip, TheCpuTouchesMemoryBehindALargeBar) {
  const HipMemory memory(3 << 20);
  std::string text(3 << 20, 'h');
  ASSERT_EQ(hipMemcpyHtoD(memory.get(), text.data(), text.size()), hipSuccess);
  EXPECT_EQ(std::string(memory.get(), text.size()), text);
  memory.get()[text.size() - 1] = 'c';
  ASSERT_EQ(hipMemcpyDtoH(text.data(), memory.get(), text.size()), hipSuccess);
  EXPECT_EQ(text.back(), 'c');
}

TEST_F(Hip, PropertiesAndAttributesAgree) {
  // The structures of HIP 6 and of HIP 5.
  hipDeviceProp_tR0600 now{};
  hipDeviceProp_tR0000 before{};
  ASSERT_EQ(hipGetDevicePropertiesR0600(&now, 1), hipSuccess);
  ASSERT_EQ(hipGetDevicePropertiesR0000(&before, 1), hipSuccess);
  EXPECT_STREQ(now.name, "AMD Instinct MI300X (emulated)");
  EXPECT_STREQ(before.name, now.name);
  EXPECT_STREQ(now.gcnArchName, "gfx942:sramecc+:xnack-");
  EXPECT_EQ(now.totalGlobalMem, 192ULL << 30);
  EXPECT_EQ(before.totalGlobalMem, now.totalGlobalMem);
  EXPECT_EQ(now.isLargeBar, 1);
  EXPECT_EQ(before.isLargeBar, 1);
  const auto attribute = [](hipDeviceAttribute_t which) {
    int value = -1;
    EXPECT_EQ(hipDeviceGetAttribute(&value, which, 1), hipSuccess);
    return value;
  };
  EXPECT_EQ(now.pciBusID, attribute(hipDeviceAttributePciBusId));
  EXPECT_EQ(before.pciBusID, now.pciBusID);
  EXPECT_EQ(now.pciDomainID, attribute(hipDeviceAttributePciDomainID));
  EXPECT_EQ(now.warpSize, attribute(hipDeviceAttributeWarpSize));
  EXPECT_EQ(now.multiProcessorCount, attribute(hipDeviceAttributeMultiprocessorCount));
  hipUUID uuid{};
  EXPECT_EQ(hipDeviceGetUuid(&uuid, 1), hipSuccess);
  EXPECT_EQ(std::string(uuid.bytes, 16), std::string(now.uuid.bytes, 16));
  EXPECT_EQ(hipDeviceGetUuid(&uuid, 0), hipSuccess);
  EXPECT_NE(std::string(uuid.bytes, 16), std::string(now.uuid.bytes, 16));
  EXPECT_EQ(hipGetDevicePropertiesR0600(&now, 2), hipErrorInvalidDevice);
  EXPECT_EQ(hipGetDevicePropertiesR0600(nullptr, 0), hipErrorInvalidValue);
}

TEST_F(Hip, SeveralFunctionsAllocateHostMemory) {
  for (const auto allocate : {&hipMallocHost, &hipMemAllocHost}) {
    void* memory = nullptr;
    ASSERT_EQ(allocate(&memory, 4096), hipSuccess);
    hipPointerAttribute_t attributes{};
    EXPECT_EQ(hipPointerGetAttributes(&attributes, memory), hipSuccess);
    EXPECT_EQ(attributes.type, hipMemoryTypeHost);
    EXPECT_EQ(hipFreeHost(memory), hipSuccess);
  }
  void* memory = nullptr;
  ASSERT_EQ(hipHostAlloc(&memory, 4096, hipHostMallocDefault), hipSuccess);
  EXPECT_EQ(hipHostFree(memory), hipSuccess);
}

TEST_F(Hip, ProcAddressesFollowTheVersion) {
  void* function = nullptr;
  hipDriverProcAddressQueryResult found = HIP_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  // 600 is HIP 6.0, which changed the structure of the properties.
  EXPECT_EQ(hipGetProcAddress("hipGetDeviceProperties", &function, 600, 0, &found), hipSuccess);
  EXPECT_EQ(function, reinterpret_cast<void*>(hipGetDevicePropertiesR0600));
  EXPECT_EQ(found, HIP_GET_PROC_ADDRESS_SUCCESS);
  EXPECT_EQ(hipGetProcAddress("hipGetDeviceProperties", &function, 500, 0, nullptr), hipSuccess);
  EXPECT_EQ(function, reinterpret_cast<void*>(hipGetDeviceProperties));
  EXPECT_EQ(hipGetProcAddress("hipModuleLoad", &function, 600, 0, nullptr), hipSuccess);
  EXPECT_EQ(reinterpret_cast<hipError_t (*)(void**, const char*)>(function)(nullptr, ""),
            hipErrorNotSupported);
  EXPECT_EQ(hipGetProcAddress("hipNonsense", &function, 600, 0, &found), hipErrorNotFound);
  EXPECT_EQ(found, HIP_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
}

TEST_F(Hip, MemoryIsOfTheCurrentDevice) {
  ASSERT_EQ(hipSetDevice(1), hipSuccess);
  const HipMemory memory(5000);
  ASSERT_EQ(hipSetDevice(0), hipSuccess);
  hipPointerAttribute_t attributes{};
  ASSERT_EQ(hipPointerGetAttributes(&attributes, memory.get() + 10), hipSuccess);
  EXPECT_EQ(attributes.type, hipMemoryTypeDevice);
  EXPECT_EQ(attributes.device, 1);
  EXPECT_EQ(attributes.devicePointer, memory.get() + 10);
  hipDeviceptr_t base = nullptr;
  std::size_t size = 0;
  EXPECT_EQ(hipMemGetAddressRange(&base, &size, memory.get() + 4999), hipSuccess);
  EXPECT_EQ(base, memory.get());
  EXPECT_EQ(size, 5000U);
  int here = 0;
  EXPECT_EQ(hipMemGetAddressRange(&base, &size, &here), hipErrorNotFound);
  EXPECT_EQ(hipPointerGetAttributes(&attributes, &here), hipSuccess);
  EXPECT_EQ(attributes.type, hipMemoryTypeUnregistered);
}

TEST_F(Hip, CopiesBetweenHostAndDeviceInAnyDirection) {
  const HipMemory first(10000);
  const HipMemory second(10000);
  std::vector<char> heap(10000, 'x');
  std::vector<char> back(10000);
  EXPECT_EQ(hipMemcpy(first.get(), heap.data(), 10000, hipMemcpyHostToDevice), hipSuccess);
  EXPECT_EQ(hipMemcpyDtoD(second.get(), first.get(), 10000), hipSuccess);
  EXPECT_EQ(hipMemset(second.get() + 1, 'y', 3), hipSuccess);
  EXPECT_EQ(hipMemcpy(back.data(), second.get(), 10000, hipMemcpyDefault), hipSuccess);
  EXPECT_EQ(std::string(back.data(), 6), "xyyyxx");
  EXPECT_EQ(hipMemcpy(back.data(), heap.data(), 10000, hipMemcpyHostToHost), hipSuccess);
  EXPECT_EQ(back, heap);
  EXPECT_EQ(hipMemcpy(back.data(), heap.data(), 1, static_cast<hipMemcpyKind>(7)),
            hipErrorInvalidMemcpyDirection);
}

TEST_F(Hip, HostMemoryIsPinnedOrManagedOrRegistered) {
  void* pinned = nullptr;
  void* managed = nullptr;
  ASSERT_EQ(hipHostMalloc(&pinned, 4096, hipHostMallocDefault), hipSuccess);
  ASSERT_EQ(hipMallocManaged(&managed, 4096, hipMemAttachGlobal), hipSuccess);
  static_cast<char*>(pinned)[0] = 1;
  static_cast<char*>(managed)[0] = 1;
  hipPointerAttribute_t attributes{};
  EXPECT_EQ(hipPointerGetAttributes(&attributes, pinned), hipSuccess);
  EXPECT_EQ(attributes.type, hipMemoryTypeHost);
  EXPECT_EQ(hipPointerGetAttributes(&attributes, managed), hipSuccess);
  EXPECT_EQ(attributes.type, hipMemoryTypeManaged);
  EXPECT_EQ(attributes.isManaged, 1);
  std::vector<char> heap(5000);
  EXPECT_EQ(hipHostRegister(heap.data(), heap.size(), 0), hipSuccess);
  EXPECT_EQ(hipHostRegister(heap.data(), heap.size(), 0), hipErrorHostMemoryAlreadyRegistered);
  EXPECT_EQ(hipPointerGetAttributes(&attributes, heap.data()), hipSuccess);
  EXPECT_EQ(attributes.type, hipMemoryTypeHost);
  EXPECT_EQ(hipHostUnregister(heap.data()), hipSuccess);
  EXPECT_EQ(hipHostUnregister(heap.data()), hipErrorHostMemoryNotRegistered);
  EXPECT_EQ(hipFree(managed), hipSuccess);
  EXPECT_EQ(hipHostFree(pinned), hipSuccess);
}

// ROCm/mori#509: a program that registers this fd at offset 0 gets the neighbour's memory.
TEST_F(Hip, ADmabufIsOfTheWholeBlockAndNoOffsetIsTold) {
  const HipMemory neighbour(4096);
  const HipMemory memory(4096);
  int fd = -1;
  ASSERT_EQ(
      hipMemGetHandleForAddressRange(&fd, memory.get(), 4096, hipMemRangeHandleTypeDmaBufFd, 0),
      hipSuccess);
  ASSERT_EQ(hipMemset(neighbour.get(), 'n', 4096), hipSuccess);
  ASSERT_EQ(hipMemset(memory.get(), 'm', 4096), hipSuccess);
  {
    const Imported imported(fd);
    EXPECT_EQ(imported.bytes(), kBlock);
    EXPECT_EQ(imported.data()[0], 'n');
    EXPECT_EQ(imported.data()[4096], 'm');
  }
  ::close(fd);
  EXPECT_EQ(
      hipMemGetHandleForAddressRange(&fd, memory.get(), 4096, hipMemRangeHandleTypeDmaBufFd, 1),
      hipErrorInvalidValue)
      << "there are no flags";
  int here = 0;
  EXPECT_EQ(hipMemGetHandleForAddressRange(&fd, &here, 4, hipMemRangeHandleTypeDmaBufFd, 0),
            hipErrorInvalidValue);
}

TEST_F(Hip, ErrorsHaveNames) {
  EXPECT_STREQ(hipGetErrorName(hipErrorOutOfMemory), "hipErrorOutOfMemory");
  EXPECT_STREQ(hipGetErrorString(hipSuccess), "no error");
  void* pointer = nullptr;
  EXPECT_EQ(hipMalloc(&pointer, 1ULL << 40), hipErrorOutOfMemory);
  EXPECT_EQ(hipFree(&pointer), hipErrorInvalidValue) << "the program's own memory";
}

}  // namespace
}  // namespace hbmwire::test
