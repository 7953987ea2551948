// SPDX-License-Identifier: MIT
#include <span>

#include "hbmwire/memory_domain.hpp"
#include "hbmwire/memory_key.hpp"

#include "ends.hpp"

/// A device's own engine must see the bytes of every transfer that the library has reported. It
/// reads them without any further flush. `hbmwire emulate --like-hardware flush` holds back bytes
/// that were not flushed.
namespace hbmwire::test {
namespace {

constexpr std::uint64_t kFlushedBytes = 20000;

class Visible : public ::testing::TestWithParam<MemoryType> {
 protected:
  Visible() {
    source_.fill(1);
    target_.fill(2);
    key_.emplace(value(MemoryKey::pack(target_.region())));
    source_key_.emplace(value(MemoryKey::pack(source_.region())));
  }

  static RemoteRegion remote(const Endpoint& endpoint, const MemoryKey& key) {
    return value(endpoint.remote(value(RemoteKey::unpack(key.bytes()))));
  }

  void finish(Transfer& transfer) {
    ends_.drive([&] { return transfer.done(); });
    const auto over = transfer.poll();
    ASSERT_TRUE(over) << describe(over.error());
  }

  /// Reads only with the device's engine.
  [[nodiscard]] bool engine_sees(std::uint64_t length) const {
    std::vector<std::byte> bytes(length);
    const Allocation& memory = target_.region().allocation();
    good(memory.domain().copy_out(memory.address(), bytes, within(10s)));
    const auto sent = pattern(kFlushedBytes, 1);
    return std::equal(bytes.begin(), bytes.end(), sent.begin());
  }

  Ends ends_;
  Memory source_{ends_.context, MemoryType::host, kFlushedBytes};
  Memory target_{ends_.context, GetParam(), kFlushedBytes};
  std::optional<MemoryKey> key_;
  std::optional<MemoryKey> source_key_;
};

TEST_P(Visible, AfterASmallReceive) {
  Transfer receive = value(ends_.b->receive(target_.all()));
  Transfer send = value(ends_.a->send(source_.slice(0, 20)));
  finish(receive);
  EXPECT_TRUE(engine_sees(20));
}

TEST_P(Visible, AfterAnEagerReceive) {
  Transfer send = value(ends_.a->send(source_.slice(0, 8000)));
  finish(send);
  Transfer receive = value(ends_.b->receive(target_.all()));
  finish(receive);
  EXPECT_TRUE(engine_sees(8000));
}

TEST_P(Visible, AfterARendezvous) {
  Transfer receive = value(ends_.b->receive(target_.all()));
  Transfer send = value(ends_.a->send(source_.all()));
  finish(receive);
  EXPECT_TRUE(engine_sees(kFlushedBytes));
}

TEST_P(Visible, AfterAWrittenRendezvous) {
  Memory closed(ends_.context, MemoryType::host, kFlushedBytes, Access::local_write);
  closed.fill(1);
  Transfer receive = value(ends_.b->receive(target_.all()));
  Transfer send = value(ends_.a->send(closed.all()));
  finish(receive);
  EXPECT_EQ(receive.explain().protocol, Protocol::rendezvous_write);
  EXPECT_TRUE(engine_sees(kFlushedBytes));
  finish(send);
}

TEST_P(Visible, AfterAGet) {
  const RemoteRegion from = remote(*ends_.b, *source_key_);
  Transfer get = value(ends_.b->get(target_.all(), from.slice(0, kFlushedBytes)));
  finish(get);
  EXPECT_TRUE(engine_sees(kFlushedBytes));
}

TEST_P(Visible, AfterAPreparedGet) {
  const RemoteRegion from = remote(*ends_.b, *source_key_);
  const std::vector<TransferPart> parts{{target_.slice(0, 10000), from.slice(0, 10000)},
                                        {target_.slice(10000, 10000), from.slice(10000, 10000)}};
  PreparedTransfer prepared = value(ends_.b->prepare_get(parts));
  Transfer get = value(prepared.post());
  finish(get);
  EXPECT_TRUE(engine_sees(kFlushedBytes));
}

TEST_P(Visible, AfterAnImmediate) {
  const RemoteRegion to = remote(*ends_.a, *key_);
  Transfer put = value(ends_.a->put(source_.all(), to.slice(0, kFlushedBytes), {.immediate = 1}));
  Transfer immediate = value(ends_.b->receive_immediate(target_.all()));
  finish(immediate);
  EXPECT_TRUE(engine_sees(kFlushedBytes));
  finish(put);
}

TEST_P(Visible, AfterAVisiblePutAndList) {
  const RemoteRegion to = remote(*ends_.a, *key_);
  Transfer put = value(ends_.a->put(source_.slice(0, 10000), to.slice(0, 10000),
                                    {.level = CompletionLevel::visible}));
  finish(put);
  EXPECT_TRUE(engine_sees(10000));
  const std::vector<TransferPart> parts{{source_.slice(10000, 5000), to.slice(10000, 5000)},
                                        {source_.slice(15000, 5000), to.slice(15000, 5000)}};
  PreparedTransfer prepared =
      value(ends_.a->prepare_put(parts, {.level = CompletionLevel::visible}));
  Transfer list = value(prepared.post());
  finish(list);
  EXPECT_TRUE(engine_sees(kFlushedBytes));
}

TEST_P(Visible, AfterAFlushByHand) {
  const RemoteRegion to = remote(*ends_.a, *key_);
  Transfer put = value(ends_.a->put(source_.all(), to.slice(0, kFlushedBytes)));
  finish(put);
  Transfer flush = value(ends_.b_worker.flush(target_.all()));
  finish(flush);
  EXPECT_TRUE(engine_sees(kFlushedBytes));
}

/// A message tells that the bytes of an earlier put have arrived. Its receive makes only its own
/// memory visible.
TEST_P(Visible, AfterAFlushByHandBehindAMessage) {
  const RemoteRegion to = remote(*ends_.a, *key_);
  Memory word(ends_.context, MemoryType::host, 64);
  Transfer receive = value(ends_.b->receive(word.slice(0, 8)));
  Transfer put = value(ends_.a->put(source_.all(), to.slice(0, kFlushedBytes)));
  Transfer send = value(ends_.a->send(word.slice(8, 8)));
  finish(receive);
  Transfer flush = value(ends_.b_worker.flush(target_.all()));
  finish(flush);
  EXPECT_TRUE(engine_sees(kFlushedBytes));
  finish(put);
  finish(send);
}

INSTANTIATE_TEST_SUITE_P(Memories, Visible,
                         ::testing::Values(MemoryType::gaudi, MemoryType::cuda, MemoryType::rocm),
                         [](const auto& type) { return std::string(to_string(type.param)); });

}  // namespace
}  // namespace hbmwire::test
