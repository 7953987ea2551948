// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "hbmwire/memory.hpp"

#include "registration/exports.hpp"

namespace hbmwire::detail {

struct EndpointState;
struct TransferState;
struct WorkerState;

/// A put or get between two memories of this process, by a device's engine. What is to be copied
/// stands in TransferState::operation, the key's token in its `compare_or_add`.
struct CopyJob {
  enum class State : std::uint8_t {
    waiting,   ///< for what the NIC has of the endpoint, up to `slot`
    flushing,  ///< the NIC makes what it wrote visible to the engine; in `slot`
    copying,
    telling,  ///< the immediate is with the NIC; in `slot`
    over,
  };

  TransferState* transfer;
  EndpointState* endpoint;
  Allocation memory;  // this end's, whatever becomes of the region
  State state = State::waiting;
  std::uint32_t slot = 0;  // of EndpointState::ring
  std::optional<ExportHold> hold = {};
  std::optional<Error> error = {};
};

/// Carries what an engine copies within this process, for all endpoints of a worker. It sits at the
/// head of an endpoint's queue as StagedMover does: a transfer has a part (TransferState::parts) as
/// long as it is here, its endpoint counts it as `moving`, and nothing is reported before the
/// engine has ended what it began.
class CopyMover {
 public:
  explicit CopyMover(WorkerState& worker) noexcept : worker_(worker) {}

  CopyMover(const CopyMover&) = delete;
  CopyMover& operator=(const CopyMover&) = delete;

  /// Takes it over, unless it has it, and does what can be done now. True: it is over, well or not,
  /// and finish() is to be called.
  bool go_on(TransferState& transfer) noexcept;

  void finish(TransferState& transfer) noexcept;

  /// Goes on with all. The number of things that happened.
  std::size_t progress() noexcept;

  /// Waits for the engines; what is here is over then.
  void end(const Error& why) noexcept;

 private:
  using Jobs = std::vector<std::unique_ptr<CopyJob>>;

  [[nodiscard]] Jobs::iterator find(const TransferState& transfer) noexcept;
  CopyJob& job_of(TransferState& transfer);
  bool step(CopyJob& job) noexcept;
  void flush(CopyJob& job) noexcept;
  void copy(CopyJob& job) noexcept;
  bool ask_engine(CopyJob& job) noexcept;
  void over(TransferState& transfer, EndpointState& endpoint) noexcept;

  WorkerState& worker_;
  Jobs jobs_;  // at most one an endpoint
};

}  // namespace hbmwire::detail
