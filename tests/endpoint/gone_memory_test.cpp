// SPDX-License-Identifier: MIT
#include <array>
#include <bit>
#include <string>
#include <vector>

#include "hbmwire/buffer.hpp"
#include "hbmwire/context.hpp"
#include "hbmwire/log.hpp"
#include "hbmwire/memory_key.hpp"
#include "hbmwire/settings.hpp"

#include "ends.hpp"
#include "heard.hpp"
#include "tests/support/lent_memory.hpp"

/// Memory of the application that does not exist (any more), and that no NIC has pinned. The
/// registration or the operation returns an error; there is never a signal. A fault would end this
/// program.
namespace hbmwire::test {
namespace {

using How = LentMemory::How;

constexpr std::array kGone{How::unmapped, How::truncated};
constexpr std::size_t kPage = 4096;
constexpr std::size_t kMiB = std::size_t{1} << 20U;
/// Sizes of messages that are sent together with their header, eagerly, and by rendezvous; in one
/// frame, and in several.
constexpr std::array<std::uint64_t, 6> kSizes{8, 200, 5000, 40000, kMiB, 5 * kMiB};

const ContextOptions kWithoutNic{.memory = {}, .nics = {"none"}, .paths = {}};

/// Two ends without a NIC, memory that the application can take away (`lent`), and memory that
/// stays (`kept`).
struct Lending {
  explicit Lending(std::uint64_t size, Access access = kAll)
      : ends({.peer_timeout = 300ms}, {}, kWithoutNic),
        lent((size + kPage - 1) / kPage * kPage),
        region(value(ends.context.register_memory(lent.data(), lent.size_bytes(), access))),
        kept(ends.context, MemoryType::host, lent.size_bytes()),
        key(value(MemoryKey::pack(region))),
        kept_key(value(MemoryKey::pack(kept.region()))) {
    set_log_sink([](LogLevel, std::string_view) {});
  }

  ~Lending() { set_log_sink({}); }

  Lending(const Lending&) = delete;
  Lending& operator=(const Lending&) = delete;

  RemoteRegion remote(const MemoryKey& packed) {
    return value(ends.a->remote(value(RemoteKey::unpack(packed.bytes()))));
  }

  /// Expects that the transfer fails, and returns its error.
  Error expect_failure(Result<Transfer> started) {
    if (!started) return started.error();
    ends.drive([&] { return started->done(); });
    const auto over = started->wait(1s);
    EXPECT_FALSE(over);
    return over ? Error{} : over.error();
  }

  /// Expects that both ends fail.
  void expect_over() {
    ends.drive([&] {
      return ends.a->phase() == EndpointPhase::failed && ends.b->phase() == EndpointPhase::failed;
    });
  }

  Ends ends;
  LentMemory lent;
  Region region;
  Memory kept;
  MemoryKey key;
  MemoryKey kept_key;
};

TEST(GoneMemory, APutFromGoneMemoryFails) {
  for (const How how : kGone) {
    for (const std::uint64_t size : kSizes) {
      Lending pair(size);
      const RemoteRegion to = pair.remote(pair.kept_key);
      pair.lent.take_away(how);
      const Error error =
          pair.expect_failure(pair.ends.a->put(pair.region.slice(0, size), to.slice(0, size)));
      EXPECT_EQ(error.hint, Hint::memory_gone) << size << describe(error);
      pair.expect_over();
    }
  }
}

TEST(GoneMemory, APutWhoseLastPageIsGoneFails) {
  for (const std::uint64_t size :
       {std::uint64_t{2 * kPage}, std::uint64_t{64 * kPage}, std::uint64_t{5 * kMiB}}) {
    Lending pair(size);
    const RemoteRegion to = pair.remote(pair.kept_key);
    pair.lent.take_away(How::truncated, size - kPage);
    const Error error =
        pair.expect_failure(pair.ends.a->put(pair.region.slice(0, size), to.slice(0, size)));
    EXPECT_EQ(error.hint, Hint::memory_gone) << size << describe(error);
    pair.ends.drive([&] { return pair.ends.b->phase() == EndpointPhase::failed; });
  }
}

TEST(GoneMemory, APutFromGoneMemoryDoesNotHarmEarlierPuts) {
  Lending pair(kPage);
  const RemoteRegion to = pair.remote(pair.kept_key);
  const Memory here(pair.ends.context, MemoryType::host, 64);
  pair.lent.take_away(How::unmapped);
  std::vector<Transfer> good_ones;
  for (int i = 0; i < 3; ++i)
    good_ones.push_back(value(pair.ends.a->put(here.slice(0, 8), to.slice(0, 8))));
  const Error error =
      pair.expect_failure(pair.ends.a->put(pair.region.slice(0, 8), to.slice(8, 8)));
  EXPECT_EQ(error.hint, Hint::memory_gone) << describe(error);
  for (Transfer& transfer : good_ones) finish(pair.ends, transfer);
}

TEST(GoneMemory, AGetIntoGoneMemoryFails) {
  for (const How how : {How::unmapped, How::truncated, How::read_only}) {
    for (const std::uint64_t size : kSizes) {
      Lending pair(size);
      const RemoteRegion from = pair.remote(pair.kept_key);
      pair.lent.take_away(how);
      const Error error =
          pair.expect_failure(pair.ends.a->get(pair.region.slice(0, size), from.slice(0, size)));
      EXPECT_EQ(error.hint, Hint::memory_gone) << size << describe(error);
      pair.expect_over();
    }
  }
}

TEST(GoneMemory, APutToGoneMemoryOfThePeerFails) {
  for (const How how : {How::unmapped, How::truncated, How::read_only}) {
    for (const std::uint64_t size : kSizes) {
      Lending pair(size);
      const RemoteRegion to = pair.remote(pair.key);
      pair.lent.take_away(how);
      const Error error =
          pair.expect_failure(pair.ends.a->put(pair.kept.slice(0, size), to.slice(0, size)));
      EXPECT_EQ(error.hint, Hint::peer_memory_gone) << size << describe(error);
      pair.expect_over();
    }
  }
}

TEST(GoneMemory, AGetFromGoneMemoryOfThePeerFails) {
  for (const How how : kGone) {
    for (const std::uint64_t size : kSizes) {
      Lending pair(size);
      const RemoteRegion from = pair.remote(pair.key);
      pair.lent.take_away(how);
      const Error error =
          pair.expect_failure(pair.ends.a->get(pair.kept.slice(0, size), from.slice(0, size)));
      EXPECT_EQ(error.hint, Hint::peer_memory_gone) << size << describe(error);
      pair.expect_over();
    }
  }
}

TEST(GoneMemory, AnAtomicOnGoneMemoryOfThePeerFails) {
  for (const How how : {How::unmapped, How::truncated, How::read_only}) {
    for (const bool adds : {false, true}) {
      Lending pair(64);
      const RemoteRegion at = pair.remote(pair.key);
      pair.lent.take_away(how);
      const Error error =
          pair.expect_failure(adds ? pair.ends.a->fetch_add(at.slice(8, 8), 1)
                                   : pair.ends.a->compare_swap(at.slice(8, 8), 0, 1));
      EXPECT_EQ(error.hint, Hint::peer_memory_gone) << describe(error);
      pair.expect_over();
    }
  }
}

TEST(GoneMemory, AListAndAMessageFromGoneMemoryFail) {
  for (const How how : kGone) {
    for (const std::uint64_t size : kSizes) {
      for (const bool list : {false, true}) {
        Lending pair(size);
        const RemoteRegion to = pair.remote(pair.kept_key);
        const Memory small(pair.ends.context, MemoryType::host, 64);
        const std::array parts{TransferPart{small.slice(0, 8), to.slice(0, 8)},
                               TransferPart{pair.region.slice(0, size), to.slice(0, size)}};
        PreparedTransfer put = value(pair.ends.a->prepare_put(parts));
        Transfer receive = value(pair.ends.b->receive(pair.kept.slice(0, size)));
        pair.lent.take_away(how);
        const Error error =
            pair.expect_failure(list ? put.post() : pair.ends.a->send(pair.region.slice(0, size)));
        EXPECT_EQ(error.hint, Hint::memory_gone) << size << describe(error);
        pair.expect_over();
        pair.ends.drive([&] { return receive.done(); });
        EXPECT_FALSE(receive.wait(1s));
      }
    }
  }
}

TEST(GoneMemory, AReceiveIntoGoneMemoryFails) {
  for (const How how : {How::unmapped, How::truncated, How::read_only}) {
    for (const std::uint64_t size : kSizes) {
      for (const bool late : {false, true}) {
        Lending pair(size);
        std::optional<Transfer> receive;
        const auto begin = [&] {
          receive = value(pair.ends.b->receive(pair.region.slice(0, size)));
        };
        if (!late) begin();
        pair.lent.take_away(how);
        Transfer send =
            value(pair.ends.a->send(pair.kept.slice(0, size), {.level = CompletionLevel::arrived}));
        for (int i = 0; i < 100 && late; ++i) {
          pair.ends.a_worker.progress();
          pair.ends.b_worker.progress();
        }
        if (late) begin();
        const Error error = pair.expect_failure(std::move(*receive));
        EXPECT_EQ(error.hint, Hint::memory_gone) << size << describe(error);
        static_cast<void>(pair.expect_failure(std::move(send)));
        if (size > 8192) continue;  // in a rendezvous, the sender's write was refused
        // Only the message fails, and the next one arrives.
        EXPECT_EQ(pair.ends.a->phase(), EndpointPhase::ready);
        Transfer next = value(pair.ends.b->receive(pair.kept.slice(0, 8)));
        Transfer word = value(pair.ends.a->send(pair.kept.slice(8, 8)));
        finish(pair.ends, next);
        finish(pair.ends, word);
      }
    }
  }
}

TEST(GoneMemory, GoneMemoryOfThePeerIsReportedInThePeersLog) {
  Lending pair(kPage);
  const RemoteRegion to = pair.remote(pair.key);
  pair.lent.take_away(How::unmapped);
  Error error;
  {
    Heard heard;  // both ends are in this process
    error = pair.expect_failure(pair.ends.a->put(pair.kept.slice(0, 8), to.slice(0, 8)));
    EXPECT_EQ(heard.count("a request of the peer's fails"), 1U);
  }
  EXPECT_EQ(error.hint, Hint::peer_memory_gone) << describe(error);
  // Heard's destructor has reset the sink.
  set_log_sink([](LogLevel, std::string_view) {});
}

/// An engine of this process copies between the device and the peer's memory.
TEST(GoneMemory, ACopyOfGoneMemoryOfThePeerFailsAlone) {
  for (const How how : kGone) {
    for (const MemoryType type : {MemoryType::gaudi, MemoryType::cuda}) {
      Lending pair(5 * kMiB);
      const Memory device(pair.ends.context, type, 5 * kMiB);
      const RemoteRegion there = pair.remote(pair.key);
      pair.lent.take_away(how, kMiB);
      for (const bool puts : {false, true}) {
        auto started = puts ? pair.ends.a->put(device.all(), there.slice(0, 5 * kMiB))
                            : pair.ends.a->get(device.all(), there.slice(0, 5 * kMiB));
        if (started) {
          EXPECT_EQ(started->path(), Path::copy);
        }
        const Error error = pair.expect_failure(std::move(started));
        EXPECT_EQ(error.hint, Hint::memory_gone) << to_string(type) << describe(error);
        EXPECT_EQ(pair.ends.a->phase(), EndpointPhase::ready);
        EXPECT_EQ(pair.ends.b->phase(), EndpointPhase::ready);
      }
    }
  }
}

/// An engine of this process copies between this end's memory and the device, and the CPU fills and
/// reads a buffer.
TEST(GoneMemory, ACopyOfGoneMemoryOfThisEndFailsAlone) {
  for (const How how : kGone) {
    for (const MemoryType type : {MemoryType::gaudi, MemoryType::cuda}) {
      Lending pair(5 * kMiB);
      const Memory device(pair.ends.context, type, 5 * kMiB);
      const MemoryKey device_key = value(MemoryKey::pack(device.region()));
      const RemoteRegion there = pair.remote(device_key);
      pair.lent.take_away(how, kMiB);
      for (const bool puts : {false, true}) {
        auto started =
            puts ? pair.ends.a->put(pair.region.slice(0, 5 * kMiB), there.slice(0, 5 * kMiB))
                 : pair.ends.a->get(pair.region.slice(0, 5 * kMiB), there.slice(0, 5 * kMiB));
        if (started) {
          EXPECT_EQ(started->path(), Path::copy);
        }
        const Error error = pair.expect_failure(std::move(started));
        EXPECT_EQ(error.hint, Hint::memory_gone) << to_string(type) << describe(error);
        EXPECT_EQ(pair.ends.a->phase(), EndpointPhase::ready);
      }
      Buffer buffer = value(Buffer::create(pair.region));
      std::vector<std::byte> bytes(2 * kMiB);
      for (const auto& copied :
           {buffer.write(0, bytes, within(5s)), buffer.read(0, bytes, within(5s))}) {
        ASSERT_FALSE(copied);
        EXPECT_EQ(copied.error().hint, Hint::memory_gone) << describe(copied.error());
      }
    }
  }
}

TEST(Registration, ARegistrationWithoutANicLooksAtThePages) {
  const Context context = value(Context::create(kWithoutNic));
  const auto refusal = [&](const LentMemory& memory, Access access) {
    const auto region = context.register_memory(memory.data(), memory.size_bytes(), access);
    EXPECT_FALSE(region);
    const Error error = region ? Error{} : region.error();
    EXPECT_EQ(error.stage, Stage::register_memory);
    return error;
  };
  const LentMemory good_one(10 * kPage);
  EXPECT_TRUE(context.register_memory(good_one.data(), good_one.size_bytes(), kAll));
  for (const Access access : {Access::none, Access::remote_read, Access::local_write}) {
    const LentMemory unmapped(10 * kPage);
    unmapped.take_away(How::unmapped, 5 * kPage);
    EXPECT_EQ(refusal(unmapped, access).hint, Hint::not_host_memory);
    const LentMemory cut_short(10 * kPage);
    cut_short.take_away(How::truncated, 5 * kPage);
    EXPECT_EQ(refusal(cut_short, access).hint, Hint::memory_beyond_file);
  }
  const LentMemory read_only(10 * kPage);
  read_only.take_away(How::read_only, 9 * kPage);
  for (const Access access : {Access::local_write, Access::remote_write, Access::remote_atomic}) {
    const Error error = refusal(read_only, access);
    EXPECT_EQ(error.code, Errc::permission_denied) << describe(error);
    EXPECT_EQ(error.hint, Hint::memory_not_writable) << describe(error);
  }
  const auto closed =
      context.register_memory(read_only.data(), read_only.size_bytes(), Access::none);
  ASSERT_TRUE(closed);
  EXPECT_TRUE(
      context.register_memory(read_only.data(), read_only.size_bytes(), Access::remote_read));
  // A key may allow more than a region that is closed to peers.
  EXPECT_TRUE(MemoryKey::pack(*closed, {.access = Access::remote_read}));
  const auto key = MemoryKey::pack(*closed, {.access = Access::remote_write});
  ASSERT_FALSE(key);
  EXPECT_EQ(key.error().hint, Hint::memory_not_writable) << describe(key.error());
}

/// The driver of a NIC only reports "bad address", so the library finds the reason itself.
TEST(Registration, ARegistrationWithANicRefusesReadOnlyPagesToo) {
  const Context context = value(Context::create({.memory = {}, .nics = {"emu0"}, .paths = {}}));
  const LentMemory read_only(10 * kPage);
  read_only.take_away(How::read_only, 9 * kPage);
  const auto region = context.register_memory(read_only.data(), read_only.size_bytes(), kAll);
  ASSERT_FALSE(region);
  EXPECT_EQ(region.error().hint, Hint::memory_not_writable) << describe(region.error());
}

}  // namespace
}  // namespace hbmwire::test
