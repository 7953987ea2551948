// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ends.hpp"
#include "raw_peer.hpp"

namespace hbmwire::test {

/// A worker with two endpoints: the victim, whose peer is a RawPeer, and a bystander, whose peer is
/// honest. No byte of the memory may change, except where a receive or a get was posted.
struct DataAttack {
  static constexpr std::uint64_t kMemoryBytes = 256 << 10;

  /// `alter_offer` changes the offer by which the victim's peer connects.
  explicit DataAttack(const std::function<void(wire::EndpointOffer&)>& alter_offer = {});
  DataAttack(const DataAttack&) = delete;
  DataAttack& operator=(const DataAttack&) = delete;

  /// Expects that `open`, `closed` and `device` have the contents that the constructor filled in,
  /// except for [offset, offset + length) of each.
  void expect_memory_unchanged(std::uint64_t offset = 0, std::uint64_t length = 0);

  /// Expects that the victim fails in time, with a message that contains `part` and names its peer,
  /// that its transfers end, and that no other endpoint notices.
  void expect_failure(Errc code, const char* part);

  /// Waits until all of `pending` have ended; cancels those that do not end by themselves.
  void expect_ends();

  /// Tests the bystander: puts, and messages of all kinds and into all memories, both ways.
  void expect_unharmed();

  /// Makes progress with both workers and the raw peer.
  void drive(int times = 2000);

  template <class Over>
  void drive_until(const Over& over) {
    const Deadline deadline = Deadline::after(10s);
    while (!over() && !deadline.passed()) drive(1);
    EXPECT_TRUE(over()) << "not over in time";
  }

  /// Starts a transfer of the victim, which stays in flight.
  Transfer& start(Result<Transfer> transfer);

  [[nodiscard]] detail::EndpointState& state() const;

  Context context = value(Context::create({.memory = {MemoryType::host, MemoryType::gaudi}}));
  Worker worker = value(Worker::create(context));
  Worker peer_worker = value(Worker::create(context));
  Listener listener = value(Listener::create(
      worker, {.address = "127.0.0.1", .endpoint = {.receive_depth = 16, .peer_timeout = 400ms}}));
  Memory open{context, MemoryType::host, kMemoryBytes};
  Memory closed{context, MemoryType::host, kMemoryBytes, Access::local_write};
  Memory device{context, MemoryType::gaudi, kMemoryBytes, Access::local_write};
  RawPeer peer;
  Endpoint victim;
  Endpoint bystander_peer;
  Endpoint bystander;
  std::deque<Transfer> pending;

 private:
  Endpoint connect_bystander();
};

}  // namespace hbmwire::test
