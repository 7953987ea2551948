// SPDX-License-Identifier: MIT
#include "emulation/gaudi/abi/synapse.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "emulation/gaudi/abi/hl_thunk.h"
#include "gaudi_test_world.hpp"

namespace hbmwire::test {
namespace {

constexpr std::uint64_t kMebi = std::uint64_t{1} << 20;

// An acquired card with a stream. Both are released even if the test fails.
class Synapse : public GaudiTest {
 protected:
  void SetUp() override {
    GaudiTest::SetUp();
    ASSERT_EQ(synInitialize(), synSuccess);
    ASSERT_EQ(synDeviceAcquire(&id_, nullptr), synSuccess);
    ASSERT_EQ(synStreamCreateGeneric(&stream_, id_, 0), synSuccess);
  }

  void TearDown() override {
    EXPECT_EQ(synDestroy(), synSuccess);
    GaudiTest::TearDown();
  }

  std::uint64_t device_buffer(std::uint64_t bytes) {
    std::uint64_t buffer = 0;
    EXPECT_EQ(synDeviceMalloc(id_, bytes, 0, 0, &buffer), synSuccess);
    return buffer;
  }

  std::uint32_t* host_buffer(std::uint64_t bytes) {
    void* buffer = nullptr;
    EXPECT_EQ(synHostMalloc(id_, bytes, 0, &buffer), synSuccess);
    return static_cast<std::uint32_t*>(buffer);
  }

  // These post a copy on stream_.
  synStatus copy(std::uint64_t source, std::uint64_t bytes, std::uint64_t destination,
                 synDmaDir direction) {
    return synMemCopyAsync(stream_, source, bytes, destination, direction);
  }

  synStatus upload(const void* source, std::uint64_t bytes, std::uint64_t destination) {
    return copy(std::bit_cast<std::uint64_t>(source), bytes, destination, HOST_TO_DRAM);
  }

  synStatus download(std::uint64_t source, std::uint64_t bytes, void* destination) {
    return copy(source, bytes, std::bit_cast<std::uint64_t>(destination), DRAM_TO_HOST);
  }

  synDeviceInfoV2 info() {
    synDeviceInfoV2 info{};
    EXPECT_EQ(synDeviceGetInfoV2(SYN_INVALID_DEVICE_ID, &info), synSuccess)
        << "any id means the one acquired device";
    return info;
  }

  synDeviceId id_ = SYN_INVALID_DEVICE_ID;
  synStreamHandle stream_ = nullptr;
};

TEST_F(Synapse, DescribesTheAcquiredDevice) {
  const synDeviceInfoV2 device = info();
  EXPECT_EQ(device.deviceType, synDeviceGaudi2);
  EXPECT_EQ(device.deviceIndex, 0);
  EXPECT_EQ(device.dramSize, 127 * kPage2);
  EXPECT_EQ(device.globalHbmBaseAddress, kFirstAddress2);
  EXPECT_EQ(hlthunk_get_device_id_from_fd(static_cast<int>(device.fd)), 0x1020U);
  synDeviceInfo older{};
  ASSERT_EQ(synDeviceGetInfo(id_, &older), synSuccess);
  EXPECT_EQ(older.fd, device.fd);
  EXPECT_EQ(older.deviceType, synDeviceGaudi2);
  std::uint32_t count = 0;
  EXPECT_EQ(synDeviceGetCountByDeviceType(&count, synDeviceGaudi2), synSuccess);
  EXPECT_EQ(count, 2U);
  char name[16] = {};
  EXPECT_EQ(synDeviceGetName(name, sizeof(name), id_), synSuccess);
  EXPECT_STREQ(name, "HL225");
}

TEST_F(Synapse, AcquiresOneDeviceAndOwnsIt) {
  synDeviceId second = 0;
  EXPECT_EQ(synDeviceAcquire(&second, nullptr), synDeviceAlreadyAcquired);
  const OpenCard other(open_first_card());  // the other card, through hl-thunk
  ASSERT_GE(other.fd(), 0);
  EXPECT_EQ(open_first_card(), -1);
  EXPECT_EQ(errno, EBUSY);
}

TEST_F(Synapse, LeavesMemoryToUsersOfTheBorrowedFd) {
  const MappedMemory memory(static_cast<int>(info().fd), kPage2);
  const Fd dmabuf(export_range(static_cast<int>(info().fd), memory.address(), kPage2));
  EXPECT_GE(dmabuf.get(), 0);
}

TEST_F(Synapse, CopiesThereAndBack) {
  constexpr std::uint64_t kBytes = 3 * kMebi + 4;
  std::uint32_t* source = host_buffer(kBytes);
  std::uint32_t* target = host_buffer(kBytes);
  std::iota(source, source + kBytes / 4, 1U);
  const std::uint64_t one = device_buffer(kBytes);
  const std::uint64_t two = device_buffer(kBytes);
  EXPECT_EQ(one % 128, 0U);
  EXPECT_NE(one % 4096, 0U) << "buffers are not aligned to pages";
  ASSERT_EQ(upload(source, kBytes, one), synSuccess);
  ASSERT_EQ(copy(one, kBytes, two, DRAM_TO_DRAM), synSuccess);
  ASSERT_EQ(download(two, kBytes, target), synSuccess);
  ASSERT_EQ(synStreamSynchronize(stream_), synSuccess);
  EXPECT_TRUE(std::equal(source, source + kBytes / 4, target));
}

TEST_F(Synapse, BuffersLieInTheExportedPool) {
  const synDeviceInfoV2 device = info();
  const std::uint64_t buffer = device_buffer(8192);
  ASSERT_EQ(synMemsetD32Async(buffer, 0xA1B2C3D4, 2048, stream_), synSuccess);
  ASSERT_EQ(synStreamSynchronize(stream_), synSuccess);
  const Fd dmabuf(
      export_range(static_cast<int>(device.fd), device.globalHbmBaseAddress, 4 * kMebi));
  ASSERT_GE(dmabuf.get(), 0);
  const ImportedMemory imported(dmabuf.get());
  std::uint32_t value = 0;
  std::memcpy(&value, imported.data() + (buffer - device.globalHbmBaseAddress) + 8188,
              sizeof(value));
  EXPECT_EQ(value, 0xA1B2C3D4U);
  const std::uint32_t written = 7;  // written from outside, as by a NIC
  std::memcpy(imported.data() + (buffer - device.globalHbmBaseAddress), &written, sizeof(written));
  std::uint32_t* host = host_buffer(4);
  ASSERT_EQ(download(buffer, 4, host), synSuccess);
  ASSERT_EQ(synStreamSynchronize(stream_), synSuccess);
  EXPECT_EQ(*host, 7U);
}

TEST_F(Synapse, MemsetsOfEachWidth) {
  const std::uint64_t buffer = device_buffer(64);
  auto* host = reinterpret_cast<unsigned char*>(host_buffer(64));
  ASSERT_EQ(synMemsetD8Async(buffer, 0x11, 64, stream_), synSuccess);
  ASSERT_EQ(synMemsetD16Async(buffer + 8, 0x2233, 2, stream_), synSuccess);
  ASSERT_EQ(synMemsetD32Async(buffer + 16, 0x44556677, 1, stream_), synSuccess);
  ASSERT_EQ(download(buffer, 64, host), synSuccess);
  ASSERT_EQ(synStreamSynchronize(stream_), synSuccess);
  EXPECT_EQ(host[7], 0x11);
  EXPECT_EQ(host[8], 0x33);
  EXPECT_EQ(host[11], 0x22);
  EXPECT_EQ(host[12], 0x11);
  EXPECT_EQ(host[16], 0x77);
  EXPECT_EQ(host[19], 0x44);
}

TEST_F(Synapse, JobsOfAStreamRunInOrder) {
  const std::uint64_t buffer = device_buffer(kMebi);
  auto* host = reinterpret_cast<unsigned char*>(host_buffer(kMebi));
  for (unsigned round = 1; round <= 50; ++round) {
    ASSERT_EQ(synMemsetD8Async(buffer, static_cast<unsigned char>(round), kMebi, stream_),
              synSuccess);
  }
  ASSERT_EQ(download(buffer, kMebi, host), synSuccess);
  ASSERT_EQ(synStreamSynchronize(stream_), synSuccess);
  EXPECT_EQ(host[0], 50);
  EXPECT_EQ(host[kMebi - 1], 50);
}

TEST_F(Synapse, CopiesTakeMappedHostMemoryOnly) {
  const std::uint64_t buffer = device_buffer(4096);
  std::vector<unsigned char> plain(8192, 9);
  EXPECT_EQ(upload(plain.data(), 4096, buffer), synInvalidArgument);
  ASSERT_EQ(synHostMap(id_, 4096, plain.data()), synSuccess);
  EXPECT_EQ(synHostMap(id_, 4096, plain.data()), synSuccess) << "mapping twice does nothing";
  EXPECT_EQ(synHostMap(id_, 8192, plain.data()), synInvalidArgument) << "it overlaps a mapping";
  EXPECT_EQ(upload(plain.data(), 4096, buffer), synSuccess);
  EXPECT_EQ(upload(plain.data() + 1, 4096, buffer), synInvalidArgument) << "beyond the mapping";
  EXPECT_EQ(synStreamSynchronize(stream_), synSuccess);
  EXPECT_EQ(synHostUnmap(id_, plain.data()), synSuccess);
  EXPECT_EQ(upload(plain.data(), 4096, buffer), synInvalidArgument);
  EXPECT_EQ(synHostUnmap(id_, plain.data()), synSuccess) << "as in the vendor's library";
  EXPECT_EQ(synHostFree(id_, plain.data(), 0), synInvalidArgument);
  EXPECT_EQ(synHostFree(id_, nullptr, 0), synSuccess);
}

TEST_F(Synapse, DeviceAddressesAreChecked) {
  const std::uint64_t buffer = device_buffer(4096);
  std::uint32_t* host = host_buffer(8192);
  EXPECT_EQ(upload(host, 8192, buffer), synInvalidArgument) << "longer than the buffer";
  EXPECT_EQ(upload(host, 4, buffer + 4096), synInvalidArgument);
  EXPECT_EQ(upload(host, 4, buffer - 4), synInvalidArgument);
  EXPECT_EQ(download(kFirstAddress2, 4, host), synInvalidArgument)
      << "the library's own part of the pool";
  EXPECT_EQ(synMemsetD32Async(buffer, 0, 1025, stream_), synInvalidArgument)
      << "one word more than the buffer has";
  EXPECT_EQ(synMemsetD32Async(buffer, 0, SIZE_MAX, stream_), synInvalidArgument);
  EXPECT_EQ(copy(buffer, 4, buffer, DIRECTION_ENUM_MAX), synInvalidArgument);
  EXPECT_EQ(synStreamSynchronize(stream_), synSuccess) << "no refused job was posted";
  EXPECT_EQ(synDeviceFree(id_, buffer + 128, 0), synFail);
  EXPECT_EQ(synDeviceFree(id_, buffer, 0), synSuccess);
  EXPECT_EQ(synDeviceFree(id_, buffer, 0), synFail);
  EXPECT_EQ(synDeviceFree(id_, 0, 0), synSuccess);
  EXPECT_EQ(upload(host, 4, buffer), synInvalidArgument) << "freed";
}

TEST_F(Synapse, SeveralCopiesArePostedTogetherOrNotAtAll) {
  const std::uint64_t buffer = device_buffer(64);
  std::uint32_t* host = host_buffer(64);
  host[0] = 1;
  const std::uint64_t base = std::bit_cast<std::uint64_t>(host);
  const std::uint64_t sources[] = {base, base + 4};
  const std::uint64_t sizes[] = {4, 4};
  const std::uint64_t good[] = {buffer, buffer + 4};
  const std::uint64_t bad[] = {buffer, buffer + 64};
  EXPECT_EQ(synMemCopyAsyncMultiple(stream_, sources, sizes, bad, HOST_TO_DRAM, 2),
            synInvalidArgument);
  EXPECT_EQ(synMemCopyAsyncMultiple(stream_, sources, sizes, good, HOST_TO_DRAM, 2), synSuccess);
  EXPECT_EQ(synStreamSynchronize(stream_), synSuccess);
}

TEST_F(Synapse, DeviceMemoryRunsOut) {
  std::uint64_t free_before = 0;
  std::uint64_t total = 0;
  ASSERT_EQ(synDeviceGetMemoryInfo(id_, &free_before, &total), synSuccess);
  EXPECT_EQ(total, 119 * kPage2) << "6 GiB, in whole pages, are left to others";
  std::uint64_t buffer = 1;
  // The library itself uses a part of the pool.
  EXPECT_EQ(synDeviceMalloc(id_, total, 0, 0, &buffer), synOutOfDeviceMemory);
  EXPECT_EQ(buffer, 0U);
  EXPECT_EQ(synDeviceMalloc(id_, 0, 0, 0, &buffer), synInvalidArgument);
  const std::uint64_t all = device_buffer(free_before);
  EXPECT_EQ(synDeviceMalloc(id_, 1, 0, 0, &buffer), synOutOfDeviceMemory);
  EXPECT_EQ(synDeviceFree(id_, all, 0), synSuccess);
  std::uint64_t free_after = 0;
  ASSERT_EQ(synDeviceGetMemoryInfo(id_, &free_after, &total), synSuccess);
  EXPECT_EQ(free_after, free_before);
}

TEST_F(Synapse, StaleHandlesAreRefused) {
  ASSERT_EQ(synStreamSynchronize(stream_), synSuccess);
  ASSERT_EQ(synStreamDestroy(stream_), synSuccess);
  EXPECT_EQ(synStreamSynchronize(stream_), synInvalidArgument);
  EXPECT_EQ(synStreamDestroy(stream_), synInvalidArgument);
  EXPECT_EQ(synStreamDestroy(nullptr), synSuccess);
  synEventHandle event = nullptr;
  ASSERT_EQ(synEventCreate(&event, id_, 0), synSuccess);
  EXPECT_EQ(synEventQuery(event), synSuccess) << "an event that was never recorded is complete";
  ASSERT_EQ(synEventDestroy(event), synSuccess);
  EXPECT_EQ(synEventQuery(event), synInvalidEventHandle);
}

TEST_F(Synapse, StreamsOfSeveralThreadsDoNotDisturbEachOther) {
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      synStreamHandle stream = nullptr;
      void* host = nullptr;
      std::uint64_t buffer = 0;
      ASSERT_EQ(synStreamCreateGeneric(&stream, id_, 0), synSuccess);
      ASSERT_EQ(synHostMalloc(id_, 65536, 0, &host), synSuccess);
      ASSERT_EQ(synDeviceMalloc(id_, 65536, 0, 0, &buffer), synSuccess);
      for (unsigned round = 0; round < 20; ++round) {
        const auto value = static_cast<unsigned char>(t * 20 + round);
        ASSERT_EQ(synMemsetD8Async(buffer, value, 65536, stream), synSuccess);
        ASSERT_EQ(synMemCopyAsync(stream, buffer, 65536, std::bit_cast<std::uint64_t>(host),
                                  DRAM_TO_HOST),
                  synSuccess);
        ASSERT_EQ(synStreamSynchronize(stream), synSuccess);
        ASSERT_EQ(static_cast<unsigned char*>(host)[65535], value);
      }
      EXPECT_EQ(synStreamDestroy(stream), synSuccess);
      EXPECT_EQ(synHostFree(id_, host, 0), synSuccess);
      EXPECT_EQ(synDeviceFree(id_, buffer, 0), synSuccess);
    });
  }
  for (auto& thread : threads) thread.join();
}

// Each job begins 0.2 s late, so work is not complete unless the test waits for it.
class SlowSynapse : public Synapse {
 protected:
  void SetUp() override {
    ::setenv("HBMWIRE_EMULATION_SYNAPSE_DELAY_US", "200000", 1);
    Synapse::SetUp();
    ::unsetenv("HBMWIRE_EMULATION_SYNAPSE_DELAY_US");
  }
};

TEST_F(SlowSynapse, CopiesAreAsynchronous) {
  const std::uint64_t buffer = device_buffer(4);
  std::uint32_t* host = host_buffer(4);
  *host = 1;
  synEventHandle event = nullptr;
  ASSERT_EQ(synEventCreate(&event, id_, 0), synSuccess);
  ASSERT_EQ(upload(host, 4, buffer), synSuccess);
  ASSERT_EQ(synEventRecord(event, stream_), synSuccess);
  EXPECT_EQ(synStreamQuery(stream_), synBusy);
  EXPECT_EQ(synEventQuery(event), synBusy);
  EXPECT_EQ(synStreamDestroy(stream_), synBusy);
  ASSERT_EQ(synEventSynchronize(event), synSuccess);
  EXPECT_EQ(synStreamQuery(stream_), synSuccess);
  *host = 2;  // the upload is over, so this does not reach the device
  std::uint32_t* back = host_buffer(4);
  *back = 0;
  ASSERT_EQ(download(buffer, 4, back), synSuccess);
  ASSERT_EQ(synDeviceSynchronize(id_), synSuccess);
  EXPECT_EQ(*back, 1U);
}

TEST_F(SlowSynapse, AStreamWaitsForAnothersEvent) {
  const std::uint64_t buffer = device_buffer(4);
  std::uint32_t* host = host_buffer(4);
  *host = 0;
  synStreamHandle second = nullptr;
  synEventHandle event = nullptr;
  ASSERT_EQ(synStreamCreateGeneric(&second, id_, 0), synSuccess);
  ASSERT_EQ(synEventCreate(&event, id_, 0), synSuccess);
  ASSERT_EQ(synMemsetD32Async(buffer, 1, 1, stream_), synSuccess);
  ASSERT_EQ(synMemsetD32Async(buffer, 2, 1, stream_), synSuccess);
  ASSERT_EQ(synEventRecord(event, stream_), synSuccess);
  ASSERT_EQ(synStreamWaitEvent(second, event, 0), synSuccess);
  ASSERT_EQ(synStreamWaitEvent(stream_, event, 0), synSuccess)
      << "a wait for the stream's own event is no deadlock";
  ASSERT_EQ(synMemCopyAsync(second, buffer, 4, std::bit_cast<std::uint64_t>(host), DRAM_TO_HOST),
            synSuccess);
  ASSERT_EQ(synStreamSynchronize(second), synSuccess);
  EXPECT_EQ(*host, 2U);
}

TEST_F(SlowSynapse, FreeingMemoryUnderAJobFailsTheStream) {
  const std::uint64_t buffer = device_buffer(4096);
  ASSERT_EQ(synMemsetD8Async(buffer, 1, 4096, stream_), synSuccess);
  ASSERT_EQ(synDeviceFree(id_, buffer, 0), synSuccess);
  EXPECT_EQ(synStreamSynchronize(stream_), synFail);
}

TEST_F(SlowSynapse, ReleasingTheDeviceWaitsForItsJobs) {
  std::uint32_t value = 5;
  ASSERT_EQ(synHostMap(id_, sizeof(value), &value), synSuccess);
  const std::uint64_t buffer = device_buffer(4);
  ASSERT_EQ(synMemsetD32Async(buffer, 6, 1, stream_), synSuccess);
  ASSERT_EQ(download(buffer, 4, &value), synSuccess);
  ASSERT_EQ(synDeviceRelease(id_), synSuccess);
  EXPECT_EQ(value, 6U);
  EXPECT_EQ(synDeviceRelease(id_), synNoDeviceFound);
  std::uint64_t other = 0;
  EXPECT_EQ(synDeviceMalloc(id_, 4, 0, 0, &other), synFail);
  EXPECT_EQ(synDeviceFree(id_, buffer, 0), synSuccess);
  const OpenCard card(open_first_card());
  EXPECT_GE(card.fd(), 0) << "the card is free again";
}

class SynapseStart : public GaudiTest {};

TEST_F(SynapseStart, InitialisationComesFirst) {
  std::uint32_t count = 0;
  EXPECT_EQ(synDeviceGetCount(&count), synUninitialized);
  ASSERT_EQ(synInitialize(), synSuccess);
  EXPECT_EQ(synInitialize(), synSuccess) << "the second call does nothing";
  ASSERT_EQ(synDeviceGetCount(&count), synSuccess);
  EXPECT_EQ(count, 2U);
  synDeviceInfoV2 info{};
  EXPECT_EQ(synDeviceGetInfoV2(0, &info), synFail) << "no device is acquired yet";
  EXPECT_EQ(synDestroy(), synSuccess);
  EXPECT_EQ(synDeviceGetCount(&count), synUninitialized);
}

TEST_F(SynapseStart, ABusyCardIsNotFound) {
  ASSERT_EQ(synInitialize(), synSuccess);
  std::uint32_t modules[4] = {};
  std::uint32_t size = 4;
  ASSERT_EQ(synDeviceGetModuleIDs(modules, &size), synSuccess);
  ASSERT_EQ(size, 2U);
  const OpenCard owner(hlthunk_open_by_module_id(modules[1]));
  synDeviceId id = 0;
  EXPECT_EQ(synDeviceAcquireByModuleId(&id, modules[1]), synNoDeviceFound);
  EXPECT_EQ(id, SYN_INVALID_DEVICE_ID);
  EXPECT_EQ(synDeviceAcquireByModuleId(&id, modules[0]), synSuccess);
  EXPECT_EQ(synDestroy(), synSuccess);
}

TEST_F(SynapseStart, Release118ReportsNoAddressOfThePool) {
  ::setenv("HBMWIRE_EMULATION_SYNAPSE_RELEASE", "1.18", 1);
  ASSERT_EQ(synInitialize(), synSuccess);
  synDeviceId id = 0;
  ASSERT_EQ(synDeviceAcquireByDeviceType(&id, synDeviceGaudi2), synSuccess);
  synDeviceInfoV2 info{};
  EXPECT_EQ(synDeviceGetInfoV2(id, &info), synSuccess);
  EXPECT_EQ(info.globalHbmBaseAddress, 0U);
  EXPECT_EQ(synDestroy(), synSuccess);
  ::unsetenv("HBMWIRE_EMULATION_SYNAPSE_RELEASE");
}

TEST_F(SynapseStart, APoolThatIsStillExportedKeepsTheCardBusy) {
  ASSERT_EQ(synInitialize(), synSuccess);
  synDeviceId id = 0;
  ASSERT_EQ(synDeviceAcquire(&id, nullptr), synSuccess);
  synDeviceInfoV2 info{};
  ASSERT_EQ(synDeviceGetInfoV2(id, &info), synSuccess);
  Fd dmabuf(export_range(static_cast<int>(info.fd), info.globalHbmBaseAddress, 4096));
  ASSERT_GE(dmabuf.get(), 0);
  EXPECT_EQ(synDestroy(), synSuccess);
  const OpenCard second(open_first_card());
  EXPECT_EQ(open_first_card(), -1);
  dmabuf.reset();
  int fd = -1;
  EXPECT_TRUE(soon([&] { return (fd = open_first_card()) >= 0; }));
  EXPECT_EQ(hlthunk_close(fd), 0);
}

}  // namespace
}  // namespace hbmwire::test
