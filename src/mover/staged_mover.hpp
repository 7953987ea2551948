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
/// as `moving`, as it does what it serves. An engine ends each copy that it has begun, whatever
/// becomes of the endpoint, and nothing is reported before.
class StagedMover final : public Mover {
 public:
  /// `nic`: null where none moves the pieces.
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

  /// Brings a message (Message) to its receive's memory.
  void bring(TransferState& transfer) noexcept;

  /// For StagedServer: what the peer of `endpoint` asks for. Throws std::bad_alloc.
  void begin_serving(EndpointState& endpoint, const ServeRequest& request);
  void advance_served(EndpointState& endpoint) noexcept;

  /// Whether prepare() has made its pieces.
  [[nodiscard]] bool is_prepared() const noexcept { return pool_.has_value(); }

  /// Not in use, whether they are made or not.
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
  void over(const StagedJob& job) noexcept;
  bool drive(StagedMessage& message) noexcept;
  void over(TransferState& transfer, EndpointState& endpoint) noexcept;

  WorkerState& worker_;
  std::optional<Nic> nic_;
  std::optional<transport::PiecePool> pool_;  // once something is staged
  Jobs jobs_;
  std::vector<std::unique_ptr<StagedMessage>> messages_;
};

}  // namespace hbmwire::detail
