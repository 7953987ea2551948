// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "emulation/gaudi/abi/hl_thunk.h"
#include "emulation/gaudi/abi/synapse.h"
#include "gaudi_test_world.hpp"

namespace hbmwire::test {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

class Gaudi1 : public GaudiTest {
 protected:
  std::vector<std::string> kinds() override { return {"GAUDI"}; }
};

class Gaudi3 : public GaudiTest {
 protected:
  std::vector<std::string> kinds() override { return {"GAUDI3"}; }
};

class GaudiMixed : public GaudiTest {
 protected:
  std::vector<std::string> kinds() override { return {"GAUDI", "GAUDI3"}; }
};

TEST_F(Gaudi1, AllocationOnlyCountsAndAnswersHandleZero) {
  const OpenCard card(hlthunk_open(HLTHUNK_DEVICE_GAUDI, nullptr));
  ASSERT_GE(card.fd(), 0);
  errno = 0;
  EXPECT_EQ(hlthunk_device_memory_alloc(card.fd(), kGiB, 0, false, false), 0U);
  EXPECT_EQ(errno, 0) << "Gaudi's driver only counts, and answers handle 0";
  hlthunk_dram_usage_info usage{};
  EXPECT_EQ(hlthunk_get_dram_usage(card.fd(), &usage), 0);
  EXPECT_EQ(usage.ctx_dram_mem, kGiB);
  EXPECT_EQ(hlthunk_device_memory_free(card.fd(), 0), 0);
  errno = 0;
  EXPECT_EQ(hlthunk_device_memory_alloc(card.fd(), 0, 0, false, false), 0U);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(hlthunk_device_memory_map(card.fd(), 0, 0), 0U);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(Gaudi1, ExportsPhysicalAddressesWithoutAnOffset) {
  const OpenCard card(open_first_card());
  hlthunk_hw_ip_info info{};
  ASSERT_EQ(hlthunk_get_hw_ip_info(card.fd(), &info), 0);
  EXPECT_EQ(info.dram_base_address, 0x20000000U);
  EXPECT_EQ(info.dram_base_address + info.dram_size, 32 * kGiB);
  const Fd dmabuf(
      hlthunk_device_memory_export_dmabuf_fd(card.fd(), info.dram_base_address + 4096, 8192, 0));
  ASSERT_GE(dmabuf.get(), 0);
  const ImportedMemory imported(dmabuf.get());
  EXPECT_EQ(imported.offset(), info.dram_base_address + 4096);
  EXPECT_EQ(imported.bytes(), 8192U);
  EXPECT_EQ(export_range(card.fd(), info.dram_base_address, 4096, 4096), -EINVAL);
  EXPECT_EQ(export_range(card.fd(), info.dram_base_address - 4096, 4096), -EINVAL)
      << "the driver's part";
  EXPECT_EQ(export_range(card.fd(), 32 * kGiB - 4096, 8192), -EINVAL) << "beyond the end";
  EXPECT_EQ(export_range(card.fd(), info.dram_base_address + 1, 4096), -EINVAL);
}

TEST_F(Gaudi1, SynapseAllocatesPhysicalAddresses) {
  ASSERT_EQ(synInitialize(), synSuccess);
  synDeviceId id = SYN_INVALID_DEVICE_ID;
  ASSERT_EQ(synDeviceAcquireByDeviceType(&id, synDeviceGaudi), synSuccess);
  synDeviceInfoV2 info{};
  ASSERT_EQ(synDeviceGetInfoV2(id, &info), synSuccess);
  EXPECT_EQ(info.deviceType, synDeviceGaudi);
  EXPECT_EQ(info.globalHbmBaseAddress, 0U);
  std::uint64_t buffer = 0;
  ASSERT_EQ(synDeviceMalloc(id, 8192, 0, 0, &buffer), synSuccess);
  synStreamHandle stream = nullptr;
  ASSERT_EQ(synStreamCreateGeneric(&stream, id, 0), synSuccess);
  ASSERT_EQ(synMemsetD8Async(buffer, 0x42, 8192, stream), synSuccess);
  ASSERT_EQ(synStreamSynchronize(stream), synSuccess);
  {
    // 8192 bytes that begin within a page lie on three pages.
    const std::uint64_t page = buffer / 4096 * 4096;
    const Fd dmabuf(
        hlthunk_device_memory_export_dmabuf_fd(static_cast<int>(info.fd), page, 12288, 0));
    const ImportedMemory imported(dmabuf.get());
    ASSERT_NE(imported.data(), nullptr);
    EXPECT_EQ(imported.data()[buffer - page], 0x42);
  }
  EXPECT_EQ(synDestroy(), synSuccess);
}

TEST_F(Gaudi3, SmallPagesCanBeChosen) {
  const OpenCard card(hlthunk_open(HLTHUNK_DEVICE_GAUDI3, nullptr));
  ASSERT_GE(card.fd(), 0);
  std::uint64_t pages = 0;
  ASSERT_EQ(hlthunk_get_dev_memalloc_page_orders(card.fd(), &pages), 0);
  // A set bit is a page size in bytes.
  EXPECT_NE(pages & (32 * kMiB), 0U);
  EXPECT_NE(pages & (64 * kMiB), 0U);
  const auto used_by = [&](std::uint64_t page) {
    const std::uint64_t handle = hlthunk_device_memory_alloc(card.fd(), 1, page, false, false);
    hlthunk_dram_usage_info usage{};
    EXPECT_EQ(hlthunk_get_dram_usage(card.fd(), &usage), 0);
    EXPECT_EQ(hlthunk_device_memory_free(card.fd(), handle), 0);
    return usage.ctx_dram_mem;
  };
  EXPECT_EQ(used_by(0), 32 * kMiB);
  EXPECT_EQ(used_by(64 * kMiB), 64 * kMiB);
  // Not an offered size, no power of two, and no whole page.
  for (const std::uint64_t page : {std::uint64_t{4096}, 48 * kMiB, 32 * kMiB + 1}) {
    errno = 0;
    EXPECT_EQ(hlthunk_device_memory_alloc(card.fd(), 1, page, false, false), 0U);
    EXPECT_EQ(errno, EINVAL) << page;
  }
}

// One page for the firmware, and five for page tables and the trace unit's buffers.
TEST_F(Gaudi3, TheDriverKeepsTheFirstSixPages) {
  const OpenCard card(open_first_card());
  const std::uint64_t reserved = 192 * kMiB;
  hlthunk_hw_ip_info info{};
  ASSERT_EQ(hlthunk_get_hw_ip_info(card.fd(), &info), 0);
  EXPECT_EQ(info.dram_size, 128 * kGiB - reserved);
  EXPECT_EQ(info.reserved_dram_size, reserved);
  hlthunk_dram_usage_info usage{};
  EXPECT_EQ(hlthunk_get_dram_usage(card.fd(), &usage), 0);
  EXPECT_EQ(usage.dram_free_mem, info.dram_size);
  EXPECT_EQ(hlthunk_device_memory_alloc(card.fd(), info.dram_size + 1, 0, false, false), 0U);
  const std::uint64_t all = hlthunk_device_memory_alloc(card.fd(), info.dram_size, 0, false, false);
  EXPECT_NE(all, 0U);
  EXPECT_EQ(hlthunk_device_memory_free(card.fd(), all), 0);
}

TEST_F(Gaudi3, MappingsLieAbovePhysicalMemoryOnPagesOfTheAllocation) {
  const OpenCard card(open_first_card());
  const MappedMemory small(card.fd(), 32 * kMiB);
  EXPECT_EQ(small.address(), 0x0201002000000000U);
  const std::uint64_t handle = hlthunk_device_memory_alloc(card.fd(), 1, 256 * kMiB, false, false);
  const std::uint64_t address = hlthunk_device_memory_map(card.fd(), handle, 0);
  EXPECT_EQ(address, small.address() + 256 * kMiB);
  const Fd dmabuf(export_range(card.fd(), address, 256 * kMiB));
  EXPECT_GE(dmabuf.get(), 0);
  EXPECT_EQ(hlthunk_device_memory_alloc(card.fd(), 128 * kGiB, 0, false, false), 0U);
  EXPECT_EQ(errno, ENOMEM);
}

TEST_F(GaudiMixed, NamesTellTheGenerationsApart) {
  EXPECT_EQ(hlthunk_get_device_count(HLTHUNK_DEVICE_GAUDI), 1);
  EXPECT_EQ(hlthunk_get_device_count(HLTHUNK_DEVICE_GAUDI3), 1);
  EXPECT_EQ(hlthunk_get_device_count(HLTHUNK_DEVICE_GAUDI2), 0);
  const OpenCard card(hlthunk_open(HLTHUNK_DEVICE_GAUDI3, nullptr));
  EXPECT_EQ(hlthunk_get_device_id_from_fd(card.fd()), 0x1060U);
}

}  // namespace
}  // namespace hbmwire::test
