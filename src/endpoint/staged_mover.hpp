// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "hbmwire/memory.hpp"

#include "transport/staged/piece_pool.hpp"

namespace hbmwire::detail {

struct EndpointState;
struct TransferState;
struct WorkerState;

/// A transfer of device memory that no NIC of this end reaches, through pieces of host memory: the
/// device's engine moves between the device and a piece while the NIC moves between other pieces
/// and the peer. What is to be moved stands in TransferState::operation.
struct StagedJob {
  struct Piece {
    enum class State : std::uint8_t {
      copying,  ///< with the engine
      ready,    ///< out of the device, and not with the NIC yet
      at_nic,
      moved,  ///< nobody touches it any more
    };
    State state = State::copying;
    std::byte* memory = nullptr;
    std::uint64_t offset_bytes = 0;  // of the transfer
    std::uint64_t length_bytes = 0;
    std::uint32_t slot = 0;  // of EndpointState::ring, where it is, or was, with the NIC
    PendingCopy copy = {};
  };

  [[nodiscard]] bool all_begun() const noexcept { return begun_bytes == length_bytes; }

  TransferState* transfer = nullptr;
  EndpointState* endpoint = nullptr;
  Allocation memory;  // keeps the domain, whatever becomes of the region
  bool out = true;    // of this end's memory; false: into it
  std::uint64_t length_bytes = 0;
  std::uint64_t begun_bytes = 0;
  std::deque<Piece> pieces;  // in their order
  std::optional<Error> error;
};

/// A message that has come whole, into device memory that no NIC reaches.
struct StagedMessage {
  TransferState* transfer = nullptr;  // null: it is over
  EndpointState* endpoint = nullptr;
  Allocation memory;
  PendingCopy copy;
};

/// Carries what is staged, for all endpoints of one NIC of a worker. Asks engines how far they are
/// whenever the worker makes progress: nothing tells of a copy's end by itself.
///
/// A transfer has a part (TransferState::parts) as long as it is here, and its endpoint counts it
/// as `moving`. What an engine has begun it ends, whatever becomes of the endpoint, and nothing is
/// reported before.
class StagedMover {
 public:
  /// Errors: Stage::allocate, register_memory.
  static Result<std::unique_ptr<StagedMover>> create(WorkerState& worker, const Nic& nic);
  StagedMover(WorkerState& worker, transport::PiecePool pool);
  StagedMover(const StagedMover&) = delete;
  StagedMover& operator=(const StagedMover&) = delete;

  [[nodiscard]] bool has(const TransferState& transfer) const noexcept;

  /// Takes it over.
  void begin(TransferState& transfer);

  /// Does what can be done now. True: it is over, well or not, and finish() is to be called.
  bool go_on(TransferState& transfer) noexcept;

  /// Whether all of it was moved.
  bool finish(TransferState& transfer) noexcept;

  /// Brings a message (TransferState::message) to its receive's memory.
  void bring(TransferState& transfer);

  /// Goes on with all. The number of things that happened.
  std::size_t progress() noexcept;

  [[nodiscard]] std::size_t free_pieces() const noexcept { return pool_.free(); }

  /// Waits for the engines; what is here is over then.
  void end(const Error& why) noexcept;

 private:
  [[nodiscard]] StagedJob* job_of(const TransferState& transfer) const noexcept;
  void take_completions(StagedJob& job) noexcept;
  void ask_engine(StagedJob& job) noexcept;
  void post_ready(StagedJob& job) noexcept;
  void start_pieces(StagedJob& job) noexcept;
  bool start_piece(StagedJob& job, StagedJob::Piece piece) noexcept;
  void drop_pieces(StagedJob& job) noexcept;
  bool drive(StagedMessage& message) noexcept;
  void over(TransferState& transfer, EndpointState& endpoint) noexcept;

  WorkerState& worker_;
  transport::PiecePool pool_;
  std::vector<std::unique_ptr<StagedJob>> jobs_;
  std::vector<std::unique_ptr<StagedMessage>> messages_;
};

}  // namespace hbmwire::detail
