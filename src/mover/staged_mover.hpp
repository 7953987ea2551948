// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "hbmwire/memory_domain.hpp"
#include "hbmwire/nic.hpp"

#include "mover/mover.hpp"
#include "mover/staged_job.hpp"
#include "mover/staged_server.hpp"

namespace hbmwire::detail {

struct WorkerState;

/// A message that is here completely, and goes to device memory that no NIC reaches.
struct StagedMessage {
  TransferState* transfer = nullptr;  // null: it is over
  EndpointState* endpoint = nullptr;
  Allocation memory;
  PendingCopy copy;
};

/// Carries transfers that are staged at this end, for all endpoints on one NIC of a worker. Polls
/// engines whenever the worker makes progress, since a copy does not signal its end.
///
/// A transfer has a part (TransferState::parts) as long as it is here, and its endpoint counts it
/// as `moving`; the same holds for requests that it serves. An engine finishes each copy that it
/// has begun, whatever becomes of the endpoint, and nothing is reported before.
class StagedMover final : public Mover {
 public:
  /// `nic`: null if no NIC moves the pieces.
  StagedMover(WorkerState& worker, const Nic* nic);

  /// Makes its pieces, once. Errors: Stage::allocate, register_memory.
  Result<void> prepare();

  [[nodiscard]] bool takes(const EndpointState& endpoint, const Move& move) const override;
  Result<void> start(TransferState& transfer, transport::Operation& operation,
                     const Move& move) override;
  bool advance(TransferState& transfer) noexcept override;
  bool finish(TransferState& transfer) noexcept override;
  bool on_answer(TransferState& transfer, const wire::MessageHeader& answer) noexcept override;
  std::size_t progress() noexcept override;
  void drain(const Error& why) noexcept override;

  /// Carries a message (Message) to its receive's memory.
  void bring(TransferState& transfer) noexcept;

  /// Begins a request of the peer of `endpoint`; for StagedServer. Throws std::bad_alloc.
  void begin_serving(EndpointState& endpoint, const ServeRequest& request);
  /// Drives the requests that it serves for the peer of `endpoint`.
  void advance_served(EndpointState& endpoint) noexcept;

  /// Whether prepare() has made the pieces.
  [[nodiscard]] bool is_prepared() const noexcept { return pool_.has_value(); }

  /// Pieces that are not in use, whether they are made yet or not.
  [[nodiscard]] std::size_t free_pieces() const noexcept {
    return pool_ ? pool_->free() : transport::PiecePool::kPieces;
  }

 private:
  using Jobs = std::vector<std::unique_ptr<StagedJob>>;

  [[nodiscard]] StagedJob* job_of(const TransferState& transfer) const noexcept;
  StagedJob& add(std::unique_ptr<StagedJob> job);
  std::unique_ptr<StagedJob> take_out(const StagedJob& job) noexcept;
  bool begin(TransferState& transfer) noexcept;
  void note(TransferState& transfer, const Error& why) noexcept;
  void end_served(const StagedJob& job) noexcept;
  bool drive(StagedMessage& message) noexcept;
  void end_transfer(TransferState& transfer, EndpointState& endpoint) noexcept;

  WorkerState& worker_;
  std::optional<Nic> nic_;
  std::optional<transport::PiecePool> pool_;  // once a transfer is staged
  Jobs jobs_;
  std::vector<std::unique_ptr<StagedMessage>> messages_;
};

}  // namespace hbmwire::detail
