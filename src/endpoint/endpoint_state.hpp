// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hbmwire/endpoint.hpp"
#include "hbmwire/fd.hpp"

#include "endpoint/transfer_state.hpp"
#include "endpoint/worker_state.hpp"
#include "registration/region_state.hpp"
#include "transport/verbs/lane_datapath.hpp"
#include "wire/control_messages.hpp"
#include "wire/endpoint_offer.hpp"
#include "wire/handshake.hpp"

namespace hbmwire::detail {

/// Requests that were posted together; the last one is signaled.
struct Posted {
  EndpointState* endpoint = nullptr;
  TransferState* transfer = nullptr;  // none: nobody asked for it
  std::uint32_t requests = 0;
};

/// A place for a message, in registered host memory.
struct MessageBuffer {
  EndpointState* endpoint = nullptr;
  std::byte* bytes = nullptr;
  std::uint32_t local_key = 0;
};

/// The advertised memory of a listener, which its endpoints outlive.
struct AdvertisedRegions;

/// One end of a connection. What the data path touches comes first.
struct EndpointState : std::enable_shared_from_this<EndpointState> {
  using Clock = WorkerState::Clock;

  // --- life (endpoint_life.cpp)

  static Result<std::shared_ptr<EndpointState>> create(const std::shared_ptr<WorkerState>& worker,
                                                       const EndpointOptions& options);
  EndpointState(WorkerState& worker_of, WorkerNic& nic_of, EndpointOptions options_of);
  EndpointState(const EndpointState&) = delete;
  EndpointState& operator=(const EndpointState&) = delete;
  ~EndpointState();

  Result<void> make_buffers(std::uint32_t receives);
  [[nodiscard]] wire::EndpointOffer offer() const;

  /// Wires both lanes up. Errors: Stage::connect.
  Result<void> connect(const wire::EndpointOffer& theirs);

  /// Breaks the connection: from here on it is ending. `culprit` (or null) fails with `error`, the
  /// others because of it.
  void fail(const Error& error, TransferState* culprit) noexcept;

  /// Goes on with ending, and with what the clock asks for.
  void look_after(Clock::time_point now) noexcept;

  void doom(TransferState& transfer) noexcept;
  [[nodiscard]] Error error_of_others() const noexcept;
  void go_on_ending(Clock::time_point at) noexcept;
  void watch_peer(Clock::time_point at) noexcept;
  void watch_socket() noexcept;
  void close_lanes(Clock::time_point at) noexcept;

  /// The application has let go of it.
  void abandon() noexcept;

  /// The application has let go of it, and nothing of it is in any queue: it can be destroyed.
  [[nodiscard]] bool gone() const noexcept {
    return abandoned && outstanding == 0 && receives_posted == 0 && control_posted == 0;
  }

  // --- one-sided operations (endpoint_datapath.cpp)

  Result<Transfer> put(const Slice& from, const RemoteSlice& to, const PutOptions& put_options);
  Result<Transfer> get(const Slice& into, const RemoteSlice& from);
  Result<Transfer> atomic(const RemoteSlice& at, transport::Operation operation);
  Result<Transfer> flush();

  [[nodiscard]] Error not_ready() const noexcept;
  [[nodiscard]] Error no_transfer_left() const noexcept;
  Result<void> set_local(transport::Operation& operation, const Slice& slice) const;
  Result<void> set_remote(transport::Operation& operation, const RemoteSlice& slice,
                          Access needed) const;
  [[nodiscard]] static Path worse(const Slice& slice, MemoryType remote_type) noexcept;

  /// Posts `operation`, or queues what there is no room for.
  Result<Transfer> start(const transport::Operation& operation, TransferState& transfer) noexcept;

  /// Posts one message of it at once; `errno` of ibv_post_send(3).
  int post(const transport::Operation& operation, TransferState* transfer) noexcept;
  void to_flush(const transport::Operation& operation, ibv_sge& spare,
                ibv_send_wr& flush) const noexcept;
  void wait_in_queue(TransferState& transfer) noexcept;

  /// Posts what there is room for of those that wait.
  void post_waiting() noexcept;

  /// A request of the data lane has completed.
  void on_posted(Posted& posted) noexcept;
  void on_failed(Posted& posted, const ibv_wc& completion, bool last) noexcept;

  // --- messages (message_datapath.cpp)

  Result<void> post_receives();
  void on_message(MessageBuffer& buffer, const ibv_wc& completion) noexcept;
  Result<Transfer> receive_immediate(const Slice& written);

  // --- the control lane (control.cpp)

  Result<void> post_receive(transport::Lane& lane, MessageBuffer& buffer, std::uint64_t bytes,
                            transport::Tag tag) const;
  Result<void> post_control_receives();
  void say_waiting() noexcept;
  void lose_control(const Error& why) noexcept;
  void on(const wire::Hail& message) noexcept;
  void on(const wire::Fence& message) noexcept;
  void on(const wire::Fenced& message) noexcept;
  void on(const wire::Farewell& message) noexcept;
  void on(const wire::LookUp& message) noexcept;
  void on(const wire::Found& message) noexcept;
  void say(const wire::ControlMessage& message) noexcept;
  void on_control(MessageBuffer& buffer, const ibv_wc& completion) noexcept;
  void on_answered(MessageBuffer& buffer, const ibv_wc& completion) noexcept;
  Result<RemoteRegion> look_up(std::string_view name, const Wait& wait);
  [[nodiscard]] Result<RemoteRegion> resolve(const RemoteKey& key) const;

  // --- the data path's

  WorkerState* worker;
  transport::Lane* data = nullptr;  // owned below
  NicState* nic = nullptr;
  EndpointPhase phase = EndpointPhase::ready;
  bool fence_next = false;
  std::uint32_t number = 0;  // of the process' connections, RemoteRegion::connection
  std::uint32_t room = 0;    // requests that the send queue takes
  std::uint32_t inline_bytes = 0;
  std::uint32_t head = 0;  // of the ring: the next to be used
  std::uint32_t ring_mask = 0;
  std::uint32_t outstanding = 0;  // of the ring
  std::uint32_t credits = 0;      // messages that the peer has room for
  std::uint64_t max_message = 0;
  TransferState* first_waiting = nullptr;
  TransferState* last_waiting = nullptr;
  std::vector<Posted> ring;
  Clock::time_point oldest{};  // when, by the worker's clock, progress was last seen

  // --- the rest

  WorkerNic& worker_nic;
  EndpointOptions options;
  std::string peer;
  std::optional<ConnectionAddress> remote;
  std::optional<Error> error;
  TransferState* culprit = nullptr;
  TransferState* doomed = nullptr;            // those that fail when it has ended
  std::shared_ptr<WorkerState> keeps_worker;  // until the application lets go
  std::shared_ptr<AdvertisedRegions> advertised;
  Fd socket;  // of the handshake; -1: there was none

  Clock::time_point settle_by{};
  bool peer_fenced = false;  // the peer's data lane is closed
  bool must_answer = false;  // the peer waits for word that ours is
  bool control_dead = false;
  bool hailed = false;
  bool peer_left = false;
  bool socket_ended = false;
  std::uint32_t receives_posted = 0;
  std::uint32_t control_posted = 0;  // both ways
  bool abandoned = false;
  bool closing_lanes = false;  // both are in ERROR
  std::uint32_t next_look_up = 0;
  std::optional<wire::Found> found;

  std::deque<std::vector<std::byte>> to_say;
  std::optional<Region> messages;  // of both lanes
  std::vector<MessageBuffer> buffers;
  std::vector<MessageBuffer> control_buffers;
  std::vector<MessageBuffer> answer_buffers;
  std::vector<MessageBuffer*> free_answer_buffers;
  std::unique_ptr<transport::Lane> control_lane;
  std::unique_ptr<transport::Lane> data_lane;
};

/// Connects over TCP: the endpoint is the worker's then. Errors: Stage::connect.
Result<std::shared_ptr<EndpointState>> shake_hands(const std::shared_ptr<WorkerState>& worker,
                                                   wire::Handshake& handshake, const Wait& wait,
                                                   const EndpointOptions& options);

}  // namespace hbmwire::detail
