// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "mover/staged_job.hpp"

namespace hbmwire::detail {

struct WorkerState;

/// What the peer asks this process to move.
struct ServeRequest {
  [[nodiscard]] Access needed() const noexcept {
    return header.kind == wire::MessageHeader::Kind::put ? Access::remote_write
                                                         : Access::remote_read;
  }

  wire::MessageHeader header;
  std::uint64_t at = 0;
};

/// A message that has come whole, into device memory that no NIC reaches.
struct StagedMessage {
  TransferState* transfer = nullptr;  // null: it is over
  EndpointState* endpoint = nullptr;
  Allocation memory;
  PendingCopy copy;
};

/// Carries what is staged at this end, for all endpoints of one NIC of a worker. Asks engines how
/// far they are whenever the worker makes progress: nothing tells of a copy's end by itself.
///
/// A transfer has a part (TransferState::parts) as long as it is here, and its endpoint counts it
/// as `moving`, as it does what it serves. What an engine has begun it ends, whatever becomes of
/// the endpoint, and nothing is reported before.
class StagedMover {
 public:
  /// `nic`: null where none moves the pieces. Errors: Stage::allocate, register_memory.
  static Result<std::unique_ptr<StagedMover>> create(WorkerState& worker, const Nic* nic);

  StagedMover(WorkerState& worker, transport::PiecePool pool);
  StagedMover(const StagedMover&) = delete;
  StagedMover& operator=(const StagedMover&) = delete;
  ~StagedMover() = default;

  [[nodiscard]] bool has(const TransferState& transfer) const noexcept;

  /// Takes it over. False: there is no memory, and the endpoint has failed.
  bool begin(TransferState& transfer) noexcept;

  /// Does what can be done now. True: it is over, well or not, and finish() is to be called.
  bool go_on(TransferState& transfer) noexcept;

  /// Whether all of it was moved.
  bool finish(TransferState& transfer) noexcept;

  /// The peer's word of a part of it. False: it was not asked for that.
  bool on_proxied(TransferState& transfer, const wire::MessageHeader& answer) noexcept;

  /// Brings a message (TransferState::message) to its receive's memory.
  void bring(TransferState& transfer) noexcept;

  /// Moves what `endpoint`'s peer asks for, and answers. EndpointState::to_serve holds what has not
  /// been begun.
  void serve(EndpointState& endpoint) noexcept;

  /// Goes on with all. The number of things that happened.
  std::size_t progress() noexcept;

  [[nodiscard]] std::size_t free_pieces() const noexcept { return pool_.free(); }

  /// Waits for the engines; what is here is over then.
  void end(const Error& why) noexcept;

 private:
  using Jobs = std::vector<std::unique_ptr<StagedJob>>;

  [[nodiscard]] StagedJob* job_of(const TransferState& transfer) const noexcept;
  StagedJob& add(std::unique_ptr<StagedJob> job);
  std::unique_ptr<StagedJob> take_out(const StagedJob& job) noexcept;
  void begin_serving(EndpointState& endpoint, const ServeRequest& request);
  void note(TransferState& transfer, const Error& why) noexcept;
  void answer(const StagedJob& job) noexcept;
  bool drive(StagedMessage& message) noexcept;
  void over(TransferState& transfer, EndpointState& endpoint) noexcept;

  WorkerState& worker_;
  transport::PiecePool pool_;
  Jobs jobs_;
  std::vector<std::unique_ptr<StagedMessage>> messages_;
};

}  // namespace hbmwire::detail
