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
    std::array<char, 13> address{};
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

TEST_F(Hip, CopiesBetweenAnything) {
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

// ROCm/mori#509: whoever registers this fd at offset 0 has the neighbour's memory.
TEST_F(Hip, AHandleIsOfTheBlockAndItsOffsetIsLost) {
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
      hipErrorInvalidValue);
  int here = 0;
  EXPECT_EQ(hipMemGetHandleForAddressRange(&fd, &here, 4, hipMemRangeHandleTypeDmaBufFd, 0),
            hipErrorInvalidValue);
}

TEST_F(Hip, ErrorsHaveNames) {
  EXPECT_STREQ(hipGetErrorName(hipErrorOutOfMemory), "hipErrorOutOfMemory");
  EXPECT_STREQ(hipGetErrorString(hipSuccess), "no error");
  void* pointer = nullptr;
  EXPECT_EQ(hipMalloc(&pointer, 1ULL << 40), hipErrorOutOfMemory);
  EXPECT_EQ(hipFree(&pointer), hipErrorInvalidValue);
}

}  // namespace
}  // namespace hbmwire::test
