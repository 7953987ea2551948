// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hbmwire/buffer.hpp"
#include "hbmwire/context.hpp"
#include "hbmwire/low_level/connection.hpp"
#include "hbmwire/memory_domain.hpp"

#include "cuda_application.hpp"
#include "emulated_hooks.hpp"
#include "helpers.hpp"
#include "verbs/nic_state.hpp"  // a NIC that takes smaller regions

// The path and the NICs with which memory is registered, and the Region's report of them.
namespace hbmwire {
namespace {

using test::kAll;
using test::soon;

constexpr std::uint64_t kRegionBytes = 8192;

/// CUDA memory with HBMWIRE_CUDA_DMABUF=`setting` on a machine with nvidia_peermem.
class CudaMachine {
 public:
  explicit CudaMachine(const char* setting) {
    std::filesystem::create_directories(kModule);
    ::setenv("HBMWIRE_CUDA_DMABUF", setting, 1);
  }

  CudaMachine(const CudaMachine&) = delete;
  CudaMachine& operator=(const CudaMachine&) = delete;

  ~CudaMachine() {
    ::unsetenv("HBMWIRE_CUDA_DMABUF");
    std::filesystem::remove_all(kModule);
  }

  [[nodiscard]] static Allocation allocate() {
    const auto gpu = Context::create()->open(MemoryType::cuda);
    EXPECT_TRUE(gpu) << describe(gpu.error());
    return *(*gpu)->allocate(kRegionBytes);
  }

 private:
  const std::filesystem::path kModule =
      std::filesystem::path(std::getenv("SYSFS_PATH")) / "module/nvidia_peermem";
};

class RegionTest : public testing::Test {
 protected:
  [[nodiscard]] static Allocation allocate(MemoryType type, MemoryOptions options = {}) {
    const auto domain = Context::create()->open(type, options);
    EXPECT_TRUE(domain) << describe(domain.error());
    return *(*domain)->allocate(kRegionBytes);
  }

  /// Registers with both NICs while the n-th call of the NICs' plugin fails: 0 and 1 are those that
  /// register with the first and with the second NIC.
  [[nodiscard]] Result<Region> register_failing(long n, const Allocation& memory) const {
    test::fail_nth_call("nic", n, EOPNOTSUPP);
    auto region = Nic::register_memory(nics_, memory, kAll);
    test::fail_nth_call("nic", -1, 0);
    return region;
  }

  /// Writes the region's first bytes to another place in it, through `nic`.
  static void expect_transfer(const Nic& nic, const Region& region) {
    auto connection = Connection::create(nic, {});
    ASSERT_TRUE(connection && connection->connect(connection->local()));
    RemoteMemory target = region.remote(nic);
    target.address += 4096;
    ASSERT_TRUE(connection->post_write(1, {&region, 0, 100}, target));
    const auto done = connection->wait(soon());
    EXPECT_TRUE(done && *done) << describe(done.error());
  }

  std::array<Nic, 2> nics_{*Nic::open("emu0"), *Nic::open("emu1")};
};

TEST_F(RegionTest, KeepsItsMemoryUntilItsLastCopyGoes) {
  std::optional<Region> region = *Nic::register_memory(nics_, allocate(MemoryType::gaudi), kAll);
  const auto domain = region->allocation().domain().shared_from_this();
  const std::uint64_t address = region->address();
  std::optional<Region> copy = region;
  region.reset();
  EXPECT_TRUE(domain->find(address, 1)) << "a copy is left";
  copy.reset();
  EXPECT_FALSE(domain->find(address, 1));
}

TEST_F(RegionTest, IsAllocatedWrittenAndReadInThreeCalls) {
  const Context context = *Context::create();
  const std::vector<std::byte> contents(kRegionBytes, std::byte{7});
  for (const MemoryType type : {MemoryType::host, MemoryType::gaudi, MemoryType::cuda}) {
    const auto region = context.allocate_region(type, kRegionBytes, Access::local_write);
    ASSERT_TRUE(region) << describe(region.error());
    EXPECT_EQ(region->size_bytes(), kRegionBytes);
    EXPECT_EQ(region->slice().length_bytes, kRegionBytes);
    const auto written = region->write(0, contents, std::chrono::seconds(10));
    ASSERT_TRUE(written) << describe(written.error());
    std::vector<std::byte> read(kRegionBytes - 1);
    const auto done = region->read(1, read, std::chrono::seconds(10));
    ASSERT_TRUE(done) << describe(done.error());
    EXPECT_TRUE(std::ranges::equal(read, std::span(contents).subspan(1)));
    EXPECT_FALSE(region->read(2, read, std::chrono::seconds(10))) << "it leaves the region";
    EXPECT_EQ(region->host_bytes().size(), type == MemoryType::host ? kRegionBytes : 0);
    if (type == MemoryType::host) {
      EXPECT_EQ(region->host_bytes().back(), std::byte{7});
    }
  }
}

std::vector<Path> paths_of(const std::vector<PathTried>& tried) {
  std::vector<Path> paths;
  for (const PathTried& one : tried) paths.push_back(one.path);
  return paths;
}

const std::vector<Path> kBestFirst{Path::zero_copy, Path::peer_memory, Path::host, Path::staged};

TEST_F(RegionTest, ExplainsEachPathBeginningWithTheBest) {
  const auto card = Nic::register_memory(nics_, allocate(MemoryType::gaudi), kAll);
  ASSERT_TRUE(card) << describe(card.error());
  const auto of_card = card->explain();
  ASSERT_EQ(paths_of(of_card), kBestFirst);
  EXPECT_TRUE(of_card[0].taken);
  EXPECT_FALSE(of_card[0].refusal);
  for (const PathTried& other : {of_card[1], of_card[2], of_card[3]}) {
    EXPECT_FALSE(other.taken);
    ASSERT_TRUE(other.refusal);
    EXPECT_EQ(other.refusal->code, Errc::not_supported);
    EXPECT_EQ(std::string(other.refusal->subject), card->allocation().domain().device().name);
  }
  const auto host = Nic::register_memory(nics_, allocate(MemoryType::host), kAll);
  ASSERT_TRUE(host) << describe(host.error());
  const auto of_host = host->explain();
  ASSERT_EQ(paths_of(of_host), kBestFirst);
  EXPECT_TRUE(of_host[2].taken);
  ASSERT_TRUE(of_host[0].refusal);
  EXPECT_NE(describe(*of_host[0].refusal).find("host memory has no dma-buf"), std::string::npos);
  EXPECT_EQ(host->dmabuf_fd(), -1);
}

TEST_F(RegionTest, TheSettingTryTakesTheOtherPathWithEveryNicAndSaysWhy) {
  // A NIC can find an integrated GPU's memory by its addresses.
  const test::CudaTrait integrated("integrated");
  const CudaMachine machine("try");
  const auto memory = CudaMachine::allocate();
  for (long n = 0; n < 2; ++n) {
    const std::string before = test::live_objects();
    {
      const auto region = register_failing(n, memory);
      ASSERT_TRUE(region) << describe(region.error());
      EXPECT_EQ(region->path(), Path::peer_memory);
      EXPECT_EQ(region->dmabuf_fd(), -1) << "nothing is left of the path that failed";
      const auto tried = region->explain();
      ASSERT_EQ(paths_of(tried), kBestFirst);
      EXPECT_FALSE(tried[0].taken);
      EXPECT_EQ(tried[0].nic, nics_.at(static_cast<std::size_t>(n)).info().name);
      ASSERT_TRUE(tried[0].refusal);
      EXPECT_EQ(std::string(tried[0].refusal->call), "ibv_reg_dmabuf_mr");
      EXPECT_EQ(tried[0].refusal->number, EOPNOTSUPP);
      EXPECT_TRUE(tried[1].taken);
      EXPECT_FALSE(tried[2].taken);
      for (const Nic& nic : nics_) expect_transfer(nic, *region);
    }
    EXPECT_EQ(test::live_objects(), before);
  }
  const auto region = Nic::register_memory(nics_, memory, kAll);
  ASSERT_TRUE(region) << describe(region.error());
  EXPECT_EQ(region->path(), Path::zero_copy) << "no call fails here";
}

TEST_F(RegionTest, TheSettingTryTakesTheOtherPathWhereTheExportFails) {
  const test::CudaTrait integrated("integrated");
  const CudaMachine machine("try");
  const auto memory = CudaMachine::allocate();
  bool seen = false;
  for (long n = 0; n < 50 && !seen; ++n) {
    test::fail_nth_call("cuda", n, EIO);
    const auto region = Nic::register_memory(nics_, memory, kAll);
    test::fail_nth_call("cuda", -1, 0);
    if (!region || region->path() != Path::peer_memory) continue;
    const auto tried = region->explain();
    EXPECT_EQ(tried[0].nic, "") << "no NIC's fault";
    ASSERT_TRUE(tried[0].refusal);
    EXPECT_EQ(tried[0].refusal->stage, Stage::export_dmabuf);
    seen = true;
  }
  EXPECT_TRUE(seen);
}

TEST_F(RegionTest, TheSettingYesMakesTheFailureOfADmabufAnError) {
  const test::CudaTrait integrated("integrated");
  const CudaMachine machine("yes");
  const auto memory = CudaMachine::allocate();
  const std::string before = test::live_objects();
  for (long n = 0; n < 2; ++n) {
    const auto region = register_failing(n, memory);
    ASSERT_FALSE(region);
    EXPECT_EQ(std::string(region.error().call), "ibv_reg_dmabuf_mr");
    EXPECT_EQ(region.error().code, Errc::not_supported);
    EXPECT_EQ(test::live_objects(), before) << "the first NIC has deregistered it, too";
  }
}

TEST_F(RegionTest, TheSettingNoExplainsWhyThereIsNoDmabuf) {
  const test::CudaTrait integrated("integrated");
  const CudaMachine machine("no");
  const auto region = Nic::register_memory(nics_, CudaMachine::allocate(), kAll);
  ASSERT_TRUE(region) << describe(region.error());
  EXPECT_EQ(region->path(), Path::peer_memory);
  const auto tried = region->explain();
  ASSERT_TRUE(tried[0].refusal);
  EXPECT_EQ(tried[0].refusal->hint, Hint::dmabuf_forbidden);
  EXPECT_NE(describe(*tried[0].refusal).find("HBMWIRE_CUDA_DMABUF=no"), std::string::npos);
}

/// This NIC cannot find a discrete GPU's memory by address, although sysfs shows nvidia_peermem.
TEST_F(RegionTest, TheErrorIsOfTheBestPathWhereTheOtherFailsToo) {
  const CudaMachine machine("try");
  const auto memory = CudaMachine::allocate();
  const std::string before = test::live_objects();
  const auto region = register_failing(0, memory);
  ASSERT_FALSE(region);
  EXPECT_EQ(std::string(region.error().call), "ibv_reg_dmabuf_mr") << describe(region.error());
  EXPECT_EQ(region.error().number, EOPNOTSUPP);
  EXPECT_EQ(test::live_objects(), before);
}

TEST_F(RegionTest, OneExportServesAllNics) {
  const auto memory =
      allocate(MemoryType::gaudi, {.device = {}, .owner = MemoryOptions::Owner::hl_thunk});
  const auto region = Nic::register_memory(nics_, memory, kAll);
  ASSERT_TRUE(region) << describe(region.error());
  EXPECT_NE(test::live_objects().find(" 1 export of gaudi0"), std::string::npos)
      << test::live_objects();
  for (const Nic& nic : nics_) expect_transfer(nic, *region);
}

TEST_F(RegionTest, ANicThatCannotTakeAllMemoryLeavesNothingWithTheOthers) {
  for (const MemoryType type : {MemoryType::host, MemoryType::gaudi}) {
    const auto memory = allocate(type);
    ASSERT_TRUE(Nic::register_memory(nics_, memory,
                                     kAll));  // from here on the card's dma-buf is kept
    const std::string before = test::live_objects();
    const std::uint64_t most = std::exchange(state_of(nics_[1]).max_region_bytes, kRegionBytes - 1);
    const auto region = Nic::register_memory(nics_, memory, kAll);
    state_of(nics_[1]).max_region_bytes = most;
    ASSERT_FALSE(region) << to_string(type);
    EXPECT_EQ(region.error().hint, Hint::region_too_large);
    EXPECT_EQ(std::string(region.error().subject), "emu1");
    EXPECT_EQ(test::live_objects(), before);
  }
}

TEST_F(RegionTest, TakesEachNicOnce) {
  const auto memory = allocate(MemoryType::host);
  const auto none = Nic::register_memory({}, memory, kAll);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Errc::invalid_argument);
  const std::array twice{nics_[0], nics_[1], nics_[0]};
  const auto region = Nic::register_memory(twice, memory, kAll);
  ASSERT_FALSE(region);
  EXPECT_EQ(region.error().code, Errc::invalid_argument);
  EXPECT_EQ(std::string(region.error().subject), "emu0");
}

TEST_F(RegionTest, RefusesUndefinedAccessFlags) {
  const auto memory = allocate(MemoryType::host);
  const auto beyond = static_cast<Access>(static_cast<unsigned>(kAllAccess) + 1);
  const std::string before = test::live_objects();
  for (const Access access : {beyond, beyond | kAllAccess, static_cast<Access>(0xff)}) {
    const auto region = nics_[0].register_memory(memory, access);
    ASSERT_FALSE(region);
    EXPECT_EQ(region.error().code, Errc::invalid_argument) << describe(region.error());
    EXPECT_EQ(region.error().stage, Stage::register_memory);
  }
  EXPECT_EQ(test::live_objects(), before);
}

TEST_F(RegionTest, AllowsOnlyTheRequestedAccess) {
  const auto memory = allocate(MemoryType::host);
  for (const Access access : {Access::none, Access::local_write, Access::remote_read}) {
    const auto region = Nic::register_memory(nics_, memory, access);
    ASSERT_TRUE(region) << describe(region.error());
    EXPECT_EQ(region->access(), access);
    auto connection = Connection::create(nics_[1], {});
    ASSERT_TRUE(connection && connection->connect(connection->local()));
    ASSERT_TRUE(connection->post_write(1, {&*region, 0, 10}, region->remote(nics_[1])));
    const auto done = connection->wait(soon());
    ASSERT_FALSE(done) << "a peer could write";
    EXPECT_EQ(done.error().hint, Hint::remote_key) << describe(done.error());
  }
}

}  // namespace
}  // namespace hbmwire
