// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "hbmwire/low_level/connection.hpp"

#include "message/receives.hpp"
#include "transport/lane.hpp"
#include "wire/control_messages.hpp"
#include "wire/invitation.hpp"

namespace hbmwire::detail {

class ControlLane;
struct EndpointState;
struct WorkerNic;

/// A place for one control message to be sent, in registered host memory.
struct ControlBuffer {
  ControlLane* lane = nullptr;
  std::byte* bytes = nullptr;
  std::uint32_t local_key = 0;
};

/// The lane by which both ends of an endpoint speak of the endpoint itself
/// (src/wire/control_messages.hpp): a message in each SEND, in their order. A message that finds no
/// buffer free waits. Once a request of the lane fails it is dead for good, and nothing more is
/// said.
///
/// After invitations it also finds the peer. Either end may be wired up long before the other. One
/// of them, `wire::Hails::first`, probes; as long as the other one is not wired up, its NIC drops
/// that without a word, until the retries are used up and the queue pair is in ERROR: then it is
/// drained, reset and wired up again, with the same packet sequence numbers, for nothing has
/// arrived at either side. The other one says nothing before it has been probed, so that its queue
/// pair never has to be reset: a packet of it that was received would be missing at the other's new
/// life. Hence not both may begin.
class ControlLane final : public Receiver {
 public:
  static constexpr std::uint32_t kBuffers = 2;  // each way: no end has more under way
  static constexpr std::uint32_t kOwnReceives = kBuffers + ReceivePool::kBatch;
  static constexpr std::uint64_t kMemoryBytes = std::uint64_t{kBuffers} * wire::kMaxControlBytes;

  /// May throw std::bad_alloc.
  explicit ControlLane(EndpointState& endpoint) : endpoint_(endpoint) {}

  ControlLane(const ControlLane&) = delete;
  ControlLane& operator=(const ControlLane&) = delete;
  ~ControlLane() = default;

  // --- connecting

  void set_lane(std::unique_ptr<transport::Lane> lane) noexcept { lane_ = std::move(lane); }

  /// `memory`: kMemoryBytes of the endpoint's, by `local_key`. May throw std::bad_alloc.
  void set_memory(std::byte* memory, std::uint32_t local_key);

  /// Receives: those that lanes share in `pool`, or its own, of `nic`, where that is null. Errors:
  /// as ReceivePool::of_lane().
  Result<void> make_receives(ReceivePool* pool, const WorkerNic& nic);

  [[nodiscard]] Receives& receives() noexcept { return receives_; }

  [[nodiscard]] const ConnectionAddress& local() const noexcept { return lane_->local(); }

  [[nodiscard]] const transport::Lane& lane() const noexcept { return *lane_; }

  Result<void> connect(const verbs::Wiring& wiring) { return lane_->connect(wiring); }

  /// Looks for the peer of an invitation, until probes() is false.
  void probe(const wire::Hails& hails);

  void stop_probing() noexcept { probe_.reset(); }

  [[nodiscard]] bool probes() const noexcept { return probe_ != nullptr; }

  void advance_probe() noexcept;
  void on_probe(const wire::Probe& message) noexcept;

  // --- messages

  /// Sends `message` as soon as there is a buffer.
  void say(const wire::ControlMessage& message) noexcept;

  /// The same, encoded already: at most wire::kMaxControlBytes. May throw std::bad_alloc.
  void say_bytes(std::vector<std::byte> bytes);
  void say_waiting() noexcept;

  /// One SEND of registered memory, in place of a free buffer's; `errno` of ibv_post_send(3).
  int post(std::uint64_t address, std::uint32_t length_bytes, std::uint32_t local_key) noexcept;

  /// Messages that wait for a buffer.
  [[nodiscard]] std::size_t backlog() const noexcept { return to_say_.size(); }

  /// Whether the peer asks for more answers than it takes.
  [[nodiscard]] bool is_behind() const noexcept { return to_say_.size() >= kMostBehind; }

  [[nodiscard]] bool has_free_buffer() const noexcept { return !free_.empty(); }

  [[nodiscard]] bool has_said_all() const noexcept {
    return to_say_.empty() && free_.size() == outgoing_.size();
  }

  void on_sent(ControlBuffer& buffer, const transport::Completion& completion) noexcept;
  void on_received(ReceiveBuffer& buffer,
                   const transport::Completion& completion) noexcept override;

  // --- its end

  [[nodiscard]] bool is_dead() const noexcept { return dead_; }

  /// Nothing is said any more, and the endpoint fails with `why`.
  void lose(const Error& why) noexcept;

  /// Nothing is said any more.
  void silence() noexcept;

  /// Takes no more messages: a receive that is over is not posted again.
  void stop_receiving() noexcept { closing_ = true; }

  [[nodiscard]] bool is_closing() const noexcept { return closing_; }

  /// Puts the lane into ERROR. A refusal by the NIC is logged, and close() has to be called again.
  void close() noexcept;

  /// Destroys its queue pair: nothing completes any more.
  void cut() noexcept;

  /// As transport::Lane::took_last_receive().
  [[nodiscard]] bool took_last_receive() noexcept { return lane_->took_last_receive(); }

  /// No request of it is under way, and no receive that it does not share.
  [[nodiscard]] bool is_drained() const noexcept {
    return sending_ == 0 && receives_.none_posted();
  }

 private:
  struct Probe {
    wire::Hails hails;
    bool said = false;
    bool failed = false;  // the lane is in ERROR
    bool heard = false;   // theirs, and it is the right one
  };

  static constexpr std::size_t kMostBehind = 8;

  /// Whether it takes more: else those of its own are not posted again.
  [[nodiscard]] bool is_open() const noexcept { return !closing_ && !dead_; }

  void take(const ReceiveBuffer& buffer, const transport::Completion& completion) noexcept;
  Result<void> wire_again();

  /// A failure that only says that the peer is not there yet.
  [[nodiscard]] bool probes_in_vain() noexcept;

  EndpointState& endpoint_;
  std::unique_ptr<transport::Lane> lane_;
  Receives receives_;
  std::array<ControlBuffer, kBuffers> outgoing_{};
  std::vector<ControlBuffer*> free_;  // of `outgoing_`
  std::deque<std::vector<std::byte>> to_say_;
  std::unique_ptr<Probe> probe_;
  std::uint32_t sending_ = 0;
  bool dead_ = false;
  bool closing_ = false;
};

}  // namespace hbmwire::detail
