// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ends.hpp"
#include "raw_peer.hpp"

namespace hbmwire::test {

/// A worker with two endpoints: the victim, whose peer is a RawPeer, and a bystander, whose peer is
/// a friend. Memory of which no byte may change but where a receive or a get was asked for.
struct DataAttack {
  static constexpr std::uint64_t kGround = 256 << 10;

  explicit DataAttack(const std::function<void(wire::EndpointOffer&)>& change = {});
  DataAttack(const DataAttack&) = delete;
  DataAttack& operator=(const DataAttack&) = delete;

  /// All memory keeps what it has now, but for [offset, offset + length) of each.
  void expect_ground(std::uint64_t offset = 0, std::uint64_t length = 0);

  /// The victim fails in time, by a sentence that says `part` and names its peer; what was under
  /// way ends, and no other endpoint notices.
  void expect_failure(Errc code, const char* part);

  /// Everything of `pending` ends; transfers that do not end by themselves are cancelled.
  void expect_ends();

  /// Puts, messages of all kinds and into all memories, both ways.
  void expect_unharmed();

  void drive(int times = 2000);

  template <class Over>
  void drive_until(const Over& over) {
    const Deadline deadline = Deadline::after(10s);
    while (!over() && !deadline.passed()) drive(1);
    EXPECT_TRUE(over()) << "not over in time";
  }

  /// One of the victim's that is under way from here on.
  Transfer& start(Result<Transfer> transfer);

  [[nodiscard]] detail::EndpointState& state() const;

  Context context = value(Context::create({.memory = {MemoryType::host, MemoryType::gaudi}}));
  Worker worker = value(Worker::create(context));
  Worker other = value(Worker::create(context));
  Listener listener = value(Listener::create(
      worker, {.address = "127.0.0.1", .endpoint = {.receive_depth = 16, .peer_timeout = 400ms}}));
  Memory open{context, MemoryType::host, kGround};
  Memory closed{context, MemoryType::host, kGround, Access::local_write};
  Memory device{context, MemoryType::gaudi, kGround, Access::local_write};
  RawPeer peer;
  Endpoint victim;
  Endpoint friendly;
  Endpoint bystander;
  std::deque<Transfer> pending;

 private:
  Endpoint befriend();
};

}  // namespace hbmwire::test
