// SPDX-License-Identifier: MIT
#include <optional>
#include <vector>

#include "contract.hpp"

/// Operations with a fence send the bytes that earlier gets bring, over every way.
namespace hbmwire::test {
namespace {

using Ask = Peer::Ask;

/// An operation that sends the first bytes of this end's memory to the peer.
struct Follower {
  const char* name;
  std::uint64_t bytes;
  bool message = false;
  bool list = false;
  PutOptions options = {};
};

const std::vector<Follower>& followers() {
  static const std::vector<Follower> all = {
      {.name = "put of 8", .bytes = 8},
      {.name = "put of 64 KiB", .bytes = 65536},
      {.name = "large put", .bytes = kHalf},
      {.name = "visible put", .bytes = 64, .options = {.level = CompletionLevel::visible}},
      {.name = "list", .bytes = 64, .list = true},
      {.name = "inlined message", .bytes = 8, .message = true},
      {.name = "small message", .bytes = 64, .message = true},
      {.name = "eager message", .bytes = 4096, .message = true},
      {.name = "large message", .bytes = kHalf, .message = true},
  };
  return all;
}

/// An operation with a fence sends the bytes that the get before it brings, wherever they are read.
class Fence : public Contract {
 protected:
  /// Expects that the peer receives the bytes that the get brought.
  void expect_sends_what_the_get_brings(const Follower& follower) {
    SCOPED_TRACE(follower.name);
    std::optional<PreparedTransfer> list;
    const TransferPart part{here(0, follower.bytes), there(0, follower.bytes)};
    if (follower.list) list.emplace(value(endpoint_->prepare_put(std::span(&part, 1))));
    fill(20);
    fill_peer(21);
    Transfer brings = get(0, kHalf, kHalf);
    good(endpoint_->fence());
    if (follower.message) peer_->tell(Ask::receive, follower.bytes);
    Transfer sends = follower.message ? value(endpoint_->send(here(0, follower.bytes)))
                     : follower.list  ? value(list->post())
                                      : put(0, 0, follower.bytes, follower.options);
    const auto received = follower.message ? peer_->hear(drive()) : Peer::Answer{};
    finish(sends);
    finish(brings);
    // After a put that is visible, the peer's engine sees all earlier bytes.
    Transfer shows = put(kBytes - 1, kBytes - 1, 1, {.level = CompletionLevel::visible});
    finish(shows);
    const auto bytes = follower.message ? received.bytes : peers_contents();
    auto expected = pattern(kBytes, 21);
    overlay(expected, 0, kHalf, 21, follower.bytes);
    EXPECT_TRUE(begin_alike(bytes, expected, follower.bytes));
  }
};

INSTANTIATE_TEST_SUITE_P(Ways, Fence, ::testing::ValuesIn(ways().begin(), ways().end()), name_of);

TEST_P(Fence, TheNextOperationBeginsWhenTheGetBeforeItIsOver) {
  for (const Follower& follower : followers()) {
    if (follower.list && !way().lists) continue;
    if (follower.message && !way().messages) continue;
    expect_sends_what_the_get_brings(follower);
  }
}

TEST_P(Fence, AllLaterOperationsWaitForTheGetBeforeIt) {
  if (!way().lists) return;
  const TransferPart part{here(0, kHalf), there(kHalf, kHalf)};
  PreparedTransfer brings = value(endpoint_->prepare_get(std::span(&part, 1)));
  for (const std::uint64_t bytes : {std::uint64_t{64}, kHalf}) {
    fill(22);
    fill_peer(23);
    Transfer get = value(brings.post());
    good(endpoint_->fence());
    Transfer first = value(endpoint_->flush());
    Transfer second = put(0, 0, bytes, {.level = CompletionLevel::visible});
    finish(second);
    finish(first);
    finish(get);
    auto expected = pattern(kBytes, 23);
    overlay(expected, 0, kHalf, 23, bytes);
    EXPECT_TRUE(same_bytes(peers_contents(), expected)) << bytes;
  }
}

TEST_P(Fence, ARefusedOperationLeavesTheFenceToTheNextOne) {
  begin({}, {.max_transfers = 4});
  fill(20);
  fill_peer(21);
  for (const bool message : {false, true}) {
    if (message && !way().messages) continue;
    std::vector<Transfer> others;
    others.push_back(get(0, kHalf, kHalf));
    good(endpoint_->fence());
    // Receives use up the worker's other transfers, so the next operation is refused.
    while (others.size() < 4) others.push_back(value(endpoint_->receive(here(kHalf, 8))));
    const auto exhausted =
        message ? endpoint_->send(here(0, 64)) : endpoint_->put(here(0, 64), there(0, 64));
    ASSERT_FALSE(exhausted);
    EXPECT_EQ(exhausted.error().code, Errc::exhausted) << describe(exhausted.error());
    EXPECT_FALSE(endpoint_->put(here(0, 64), there(0, 63))) << "the lengths differ";
    good(others.back().cancel());
    others.pop_back();
    Transfer sends = put(0, 0, 64, {.level = CompletionLevel::visible});
    finish(sends);
    finish(others.front());
    const auto bytes = peers_contents();
    auto expected = pattern(kBytes, 21);
    overlay(expected, 0, kHalf, 21, 64);
    EXPECT_TRUE(begin_alike(bytes, expected, 64));
    for (std::size_t i = 1; i < others.size(); ++i) good(others[i].cancel());
    fill(20);
    fill_peer(21);
  }
}

}  // namespace
}  // namespace hbmwire::test
