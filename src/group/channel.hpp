// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "hbmwire/context.hpp"
#include "hbmwire/endpoint.hpp"
#include "hbmwire/incoming_message.hpp"
#include "hbmwire/region.hpp"
#include "hbmwire/transfer.hpp"
#include "hbmwire/worker.hpp"

#include "wire/group_messages.hpp"

namespace hbmwire::detail {

/// Memory of a transfer that may still use it.
struct InUse {
  Region memory;
  Transfer transfer;
};

/// The worker by which a group's ranks and its meeting point talk: over TCP, apart from the
/// application's worker, so that the two never take each other's messages. One thread at a time.
struct GroupControl {
  /// Uses peer_timeout, pre_shared_key and link of `options`. Errors: as Worker::create().
  static Result<GroupControl> create(const EndpointOptions& options);

  /// A message in memory that any number of channels may send. Errors: as
  /// Context::allocate_region().
  [[nodiscard]] Result<Region> pack(const wire::GroupMessage& message) const;

  /// Drops the memory that ended channels have left, if its transfer is over.
  void tidy() noexcept;

  Context context;
  Worker worker;
  EndpointOptions options;       // of every channel; without a hello
  std::vector<InUse> left = {};  // memory that ended channels have left
};

/// One rank's connection to the meeting point, at either end: whole messages in their order.
class Channel {
 public:
  /// `most_bytes`: the longest message that may come; a longer one ends the channel.
  Channel(GroupControl& control, Endpoint endpoint, std::size_t most_bytes);
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// Ends the channel without a goodbye.
  ~Channel();

  [[nodiscard]] std::uint64_t id() const noexcept { return endpoint_->id(); }

  [[nodiscard]] std::span<const std::byte> hello() const noexcept {
    return endpoint_->peer_hello();
  }

  /// Queues a message; it goes with the worker's progress. Errors: the channel has ended.
  Result<void> say(const Region& packed);
  Result<void> say(const wire::GroupMessage& message);

  /// Takes over a message that the worker has handed out for this channel's endpoint.
  void take(IncomingMessage message);

  /// The next whole message. A malformed one ends the channel.
  std::optional<wire::GroupMessage> hear();

  /// Frees the messages that the peer has taken. Returns whether it has taken all.
  [[nodiscard]] bool all_taken() noexcept;

  /// Whether no further message comes; hear() may still have earlier ones.
  [[nodiscard]] bool over() const noexcept;

  /// Whether the peer has ended the channel in good order, rather than broken off.
  [[nodiscard]] bool has_said_goodbye() const noexcept;

  /// Says goodbye, without waiting. over() tells when the peer has answered, or `at_most` has
  /// passed.
  void close(std::chrono::milliseconds at_most) noexcept;

 private:
  struct Coming {
    std::vector<std::byte> bytes;  // empty if the message comes by rendezvous
    std::optional<InUse> by_rendezvous;
  };

  [[nodiscard]] Result<Coming> begin_receive(IncomingMessage& message) const;

  /// Leaves memory whose transfer still runs to GroupControl::tidy().
  void leave_to_control(InUse& memory) noexcept;

  GroupControl* control_;
  std::size_t most_bytes_;
  bool broken_ = false;
  std::deque<InUse> sent_;
  std::deque<Coming> coming_;
  std::optional<Endpoint> endpoint_;  // set until the destructor
  Transfer closing_;
};

}  // namespace hbmwire::detail
