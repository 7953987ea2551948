// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "hbmwire/buffer.hpp"
#include "hbmwire/low_level/connection.hpp"
#include "hbmwire/memory_domain.hpp"

#include "gaudi_vendor_calls.hpp"
#include "helpers.hpp"
#include "open_memory.hpp"

/// The library on hardware that holds inbound writes back until a flush, and small messages until
/// they are polled (`hbmwire emulate --like-hardware=flush,scatter`).
namespace hbmwire {
namespace {

using test::filled;
using test::soon;

/// A buffer in host memory, connected to one in a card that SynapseAI uses.
class LikeHardware : public testing::Test {
 protected:
  static constexpr std::size_t kSize = 1 << 16;

  struct Side {
    Nic nic;
    Buffer buffer;
    Connection connection;
  };

  static Side make_side(MemoryType type, const char* device) {
    auto nic = Nic::open(device);
    EXPECT_TRUE(nic) << describe(nic.error());
    MemoryOptions options;
    if (type == MemoryType::gaudi) options.owner = MemoryOptions::Owner::synapse;
    auto domain = test::open_memory(type, options);
    EXPECT_TRUE(domain) << describe(domain.error());
    auto buffer = Buffer::create(*domain, *nic, kSize, Access::remote_write | Access::remote_read);
    EXPECT_TRUE(buffer) << describe(buffer.error());
    auto connection = Connection::create(*nic, {});
    EXPECT_TRUE(connection) << describe(connection.error());
    return {std::move(*nic), std::move(*buffer), std::move(*connection)};
  }

  void connect() {
    ASSERT_TRUE(host_.connection.connect(card_.connection.local()));
    ASSERT_TRUE(card_.connection.connect(host_.connection.local()));
  }

  /// Writes the host's bytes into the card, as far as the NICs can tell.
  void write(std::uint64_t offset, int value) {
    ASSERT_TRUE(host_.buffer.write(0, filled(100, value), soon()));
    RemoteMemory target = card_.buffer.region().remote();
    target.address += offset;
    ASSERT_TRUE(host_.connection.post_write(1, {&host_.buffer.region(), 0, 100}, target));
    const auto done = host_.connection.wait(soon());
    ASSERT_TRUE(done) << describe(done.error());
  }

  /// The bytes that the card's own engine reads.
  std::vector<std::byte> by_engine(std::uint64_t offset) {
    std::vector<std::byte> bytes(100);
    const Region& region = card_.buffer.region();
    EXPECT_TRUE(region.allocation().domain().copy_out(region.address() + offset, bytes, soon()));
    return bytes;
  }

  std::vector<std::byte> by_library(std::uint64_t offset) {
    std::vector<std::byte> bytes(100);
    EXPECT_TRUE(card_.buffer.read(offset, bytes, soon()));
    return bytes;
  }

  Side host_ = make_side(MemoryType::host, "emu0");
  Side card_ = make_side(MemoryType::gaudi, "emu1");
};

TEST_F(LikeHardware, TheEngineNeedsAFlushAndReadDoesIt) {
  connect();
  ASSERT_TRUE(card_.buffer.write(0, filled(kSize, 1), soon()));
  write(500, 2);
  EXPECT_EQ(by_engine(500), filled(100, 1)) << "nothing needed a flush here";
  EXPECT_EQ(by_library(500), filled(100, 2));
  EXPECT_EQ(by_engine(500), filled(100, 2));
}

TEST_F(LikeHardware, TheLastWriteArrivesLast) {
  connect();
  write(500, 2);
  ASSERT_TRUE(card_.buffer.write(500, filled(100, 3), soon()));
  EXPECT_EQ(by_library(500), filled(100, 3));
}

TEST_F(LikeHardware, AnswersOfReadsAreFlushedToo) {
  connect();
  ASSERT_TRUE(card_.buffer.write(0, filled(kSize, 1), soon()));
  ASSERT_TRUE(host_.buffer.write(0, filled(100, 2), soon()));
  ASSERT_TRUE(card_.connection.post_read(1, {&card_.buffer.region(), 500, 100},
                                         host_.buffer.region().remote()));
  ASSERT_TRUE(card_.connection.wait(soon()));
  EXPECT_EQ(by_engine(500), filled(100, 1)) << "nothing needed a flush here";
  EXPECT_EQ(by_library(500), filled(100, 2));
}

/// Memory of the application that SynapseAI allocated (docs/adr/0005).
TEST(BorrowedMemory, NeedsAFlushLikeAnyOther) {
  const test::ApplicationSynapse application;
  const auto context = Context::create();
  const auto nic = Nic::open();
  ASSERT_TRUE(context && nic);
  const auto borrowed = context->borrow(application.allocate(4096), 4096);
  ASSERT_TRUE(borrowed) << describe(borrowed.error());
  auto buffer = Buffer::create(*borrowed, *nic, Access::remote_write);
  auto source = Buffer::create(*context->open(MemoryType::host), *nic, 100, Access::none);
  auto connection = Connection::create(*nic, {});
  ASSERT_TRUE(buffer && source && connection);
  ASSERT_TRUE(connection->connect(connection->local()));
  ASSERT_TRUE(buffer->write(0, filled(4096, 1), soon()));
  ASSERT_TRUE(source->write(0, filled(100, 2), soon()));
  RemoteMemory target = buffer->region().remote();
  target.address += 500;
  ASSERT_TRUE(connection->post_write(1, {&source->region(), 0, 100}, target));
  ASSERT_TRUE(connection->wait(soon()));
  std::vector<std::byte> got(100);
  ASSERT_TRUE(borrowed->domain().copy_out(borrowed->address() + 500, got, soon()));
  EXPECT_EQ(got, filled(100, 1)) << "nothing needed a flush here";
  auto read = buffer->start_read(500, got);
  ASSERT_TRUE(read);
  ASSERT_TRUE(read->wait(soon()));
  EXPECT_EQ(got, filled(100, 2));
}

Result<void> receive_small_message() {
  const Wait wait = soon();
  HBMWIRE_TRY_ASSIGN(const Nic nic, Nic::open());
  HBMWIRE_TRY_ASSIGN(const auto card,
                     test::open_memory(MemoryType::gaudi,
                                       {.device = {}, .owner = MemoryOptions::Owner::hl_thunk}));
  HBMWIRE_TRY_ASSIGN(Buffer buffer, Buffer::create(card, nic, 4096, Access::remote_write));
  HBMWIRE_TRY_ASSIGN(Connection connection, Connection::create(nic, {}));
  HBMWIRE_TRY(connection.connect(connection.local()));
  HBMWIRE_TRY(buffer.write(0, filled(8, 7), wait));
  HBMWIRE_TRY(connection.post_receive(1, {&buffer.region(), 100, 8}));
  HBMWIRE_TRY(connection.post_send(2, {&buffer.region(), 0, 8}));
  HBMWIRE_TRY(connection.wait(wait));
  HBMWIRE_TRY(connection.wait(wait));
  std::vector<std::byte> got(8);
  HBMWIRE_TRY(buffer.read(100, got, wait));
  EXPECT_EQ(got, filled(8, 7));
  return {};
}

TEST(SmallMessages, GoIntoDeviceMemory) {
  const auto done = receive_small_message();
  EXPECT_TRUE(done) << describe(done.error());
}

/// To avoid this crash the library sets MLX5_SCATTER_TO_CQE=0 if the user did not set it.
TEST(SmallMessages, PlacementByTheCpuInDeviceMemoryIsFatal) {
  ::setenv("MLX5_SCATTER_TO_CQE", "1", 1);
  EXPECT_DEATH((void)receive_small_message(), "");
  ::setenv("MLX5_SCATTER_TO_CQE", "0", 1);
}

// Another thread may read it at that moment.
TEST(SmallMessages, OpeningANicLeavesTheEnvironmentAlone) {
  EXPECT_STREQ(std::getenv("MLX5_SCATTER_TO_CQE"), "0");
  ::unsetenv("MLX5_SCATTER_TO_CQE");
  EXPECT_TRUE(Nic::open());
  EXPECT_EQ(std::getenv("MLX5_SCATTER_TO_CQE"), nullptr);
  ::setenv("MLX5_SCATTER_TO_CQE", "0", 1);
}

}  // namespace
}  // namespace hbmwire
