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

/// A buffer for one control message to be sent, in registered host memory.
struct ControlBuffer {
  ControlLane* lane = nullptr;
  std::byte* bytes = nullptr;
  std::uint32_t local_key = 0;
};

/// The lane by which the two ends of an endpoint talk about the endpoint itself
/// (src/wire/control_messages.hpp). Each message is a SEND; messages keep their order, and wait if
/// no buffer is free. Once a request of the lane fails, the lane is dead for good and sends nothing
/// more.
///
/// With invitations this lane also finds the peer, since either end may be wired up long before the
/// other. The end that `wire::Hails::first` names probes. As long as the other end is not wired up,
/// the other NIC drops the probe silently, until the retries are used up and the queue pair here
/// goes to ERROR. Then the queue pair is drained, reset and wired up again, with the same packet
/// sequence numbers, since nothing has arrived on either side. The other end sends nothing before
/// it has been probed, so that its queue pair never needs a reset: after a reset, a packet that had
/// arrived before would be missing. Therefore only one of the ends may probe.
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

  /// Gives the lane its buffers: `memory` is kMemoryBytes of the endpoint's, registered as
  /// `local_key`. May throw std::bad_alloc.
  void set_memory(std::byte* memory, std::uint32_t local_key);

  /// Makes the receives: shared ones of `pool`, or if `pool` is null its own on `nic`. Errors: as
  /// ReceivePool::of_lane().
  Result<void> make_receives(ReceivePool* pool, const WorkerNic& nic);

  [[nodiscard]] Receives& receives() noexcept { return receives_; }

  [[nodiscard]] const ConnectionAddress& local() const noexcept { return lane_->local(); }

  [[nodiscard]] const transport::Lane& lane() const noexcept { return *lane_; }

  Result<void> connect(const verbs::Wiring& wiring) { return lane_->connect(wiring); }

  /// Looks for the peer of an invitation, until probes() is false.
  void probe(const wire::Hails& hails);

  void stop_probing() noexcept { probe_.reset(); }

  [[nodiscard]] bool probes() const noexcept { return probe_ != nullptr; }

  /// Does the next step of probing that is possible now. Only while probes().
  void advance_probe() noexcept;
  void on_probe(const wire::Probe& message) noexcept;

  // --- messages

  /// Sends `message` as soon as there is a buffer.
  void say(const wire::ControlMessage& message) noexcept;

  /// say() for an encoded message of at most wire::kMaxControlBytes. May throw std::bad_alloc.
  void say_bytes(std::vector<std::byte> bytes);

  /// Posts waiting messages, as many as there are buffers.
  void say_waiting() noexcept;

  /// Posts one SEND of registered memory, and uses up a free buffer until it completes. Returns
  /// `errno` of ibv_post_send(3).
  int post(std::uint64_t address, std::uint32_t length_bytes, std::uint32_t local_key) noexcept;

  /// The number of messages that wait for a buffer.
  [[nodiscard]] std::size_t backlog() const noexcept { return to_say_.size(); }

  /// Whether the peer asks faster than it takes the answers.
  [[nodiscard]] bool is_behind() const noexcept { return to_say_.size() >= kMostBehind; }

  [[nodiscard]] bool has_free_buffer() const noexcept { return !free_.empty(); }

  [[nodiscard]] bool has_said_all() const noexcept {
    return to_say_.empty() && free_.size() == outgoing_.size();
  }

  void on_sent(ControlBuffer& buffer, const transport::Completion& completion) noexcept;
  void on_received(ReceiveBuffer& buffer,
                   const transport::Completion& completion) noexcept override;

  // --- the end of the lane

  [[nodiscard]] bool is_dead() const noexcept { return dead_; }

  /// Stops sending, and makes the endpoint fail with `why`.
  void lose(const Error& why) noexcept;

  /// Stops sending.
  void silence() noexcept;

  /// Takes no more messages: a receive that has completed is not posted again.
  void stop_receiving() noexcept { closing_ = true; }

  [[nodiscard]] bool is_closing() const noexcept { return closing_; }

  /// Puts the lane into ERROR. If the NIC refuses, that is logged, and close() must be called
  /// again.
  void close() noexcept;

  /// Destroys the queue pair: no request completes any more.
  void cut() noexcept;

  /// Whether a lane in ERROR has completed all receives that it took of the shared ones
  /// (transport::Lane).
  [[nodiscard]] bool took_last_receive() noexcept { return lane_->took_last_receive(); }

  /// Whether neither requests of it nor receives of its own are under way.
  [[nodiscard]] bool is_drained() const noexcept {
    return sending_ == 0 && receives_.none_posted();
  }

 private:
  struct Probe {
    wire::Hails hails;
    bool said = false;
    bool failed = false;  // the lane is in ERROR
    bool heard = false;   // the right peer's probe has come
  };

  // More answers than a correct peer has asked for at a time.
  static constexpr std::size_t kMostBehind = 8;

  /// Whether it takes more messages. If not, receives of its own are not posted again.
  [[nodiscard]] bool is_open() const noexcept { return !closing_ && !dead_; }

  void take(const ReceiveBuffer& buffer, const transport::Completion& completion) noexcept;
  Result<void> wire_again();

  /// A request of the lane has failed. True: that only means that the peer is not there yet, and
  /// advance_probe() will probe again.
  [[nodiscard]] bool note_failed_probe() noexcept;

  EndpointState& endpoint_;
  std::unique_ptr<transport::Lane> lane_;
  Receives receives_;
  std::array<ControlBuffer, kBuffers> outgoing_{};
  std::vector<ControlBuffer*> free_;  // the unused ones of `outgoing_`
  std::deque<std::vector<std::byte>> to_say_;
  std::unique_ptr<Probe> probe_;
  std::uint32_t sending_ = 0;
  bool dead_ = false;
  bool closing_ = false;
};

}  // namespace hbmwire::detail
