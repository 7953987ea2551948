// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "hbmwire/memory.hpp"

#include "registration/exports.hpp"
#include "wire/control_messages.hpp"

namespace hbmwire::detail {

struct EndpointState;
struct TransferState;
struct WorkerState;

/// A put or get by a device's engine: of this process, between two memories of its own, or of the
/// peer's (Path::ipc), which opens this end's memory for it. What is to be copied stands in
/// TransferState::operation, the key's token in its `compare_or_add`.
struct CopyJob {
  enum class State : std::uint8_t {
    waiting,   ///< for what the NIC has of the endpoint, up to `slot`
    flushing,  ///< the NIC makes what it wrote visible to the engine; in `slot`
    copying,   ///< the engine; or the peer has been asked
    telling,   ///< the immediate is with the NIC; in `slot`
    over,
  };

  TransferState* transfer;
  EndpointState* endpoint;
  Allocation memory;  // this end's, whatever becomes of the region
  State state = State::waiting;
  std::uint32_t slot = 0;  // of EndpointState::ring
  std::optional<ExportHold> hold = {};
  std::optional<Error> error = {};
  std::uint32_t asked = 0;               // wire::IpcCopy::id, until it is answered
  std::optional<Error> not_by_ipc = {};  // nothing was copied, and nothing will be by this way
  bool looks = true;                     // counted in WorkerState::staged
};

/// Carries what an engine copies, for all endpoints of a worker. It sits at the head of an
/// endpoint's queue as StagedMover does: a transfer has a part (TransferState::parts) as long as it
/// is here, its endpoint counts it as `moving`, and nothing is reported before the engine has ended
/// what it began. Of the peer's engine its process says so; where that says nothing any more, its
/// end, or EndpointOptions::peer_timeout, bounds it.
class CopyMover {
 public:
  explicit CopyMover(WorkerState& worker) noexcept : worker_(worker) {}

  CopyMover(const CopyMover&) = delete;
  CopyMover& operator=(const CopyMover&) = delete;
  ~CopyMover() = default;

  /// Takes it over, unless it has it, and does what can be done now. True: it is over, well or not,
  /// and finish() is to be called.
  bool go_on(TransferState& transfer) noexcept;

  void finish(TransferState& transfer) noexcept;

  /// Lets go of one that is over because IPC can't carry it; why. Nothing: it went, or has failed.
  std::optional<Error> turn_back(TransferState& transfer) noexcept;

  /// Whether the peer was asked for something of this endpoint's, and has not answered.
  [[nodiscard]] bool asks(const EndpointState& endpoint) const noexcept;

  /// The peer's answer. False: it was not asked.
  bool on_copied(EndpointState& endpoint, const wire::IpcCopied& answer) noexcept;

  /// The endpoint ends: it is no longer the peer's word alone that one waits for.
  void on_ending(EndpointState& endpoint) noexcept;

  /// Goes on with all. The number of things that happened.
  std::size_t progress() noexcept;

  /// Waits for the engines; what is here is over then.
  void end(const Error& why) noexcept;

 private:
  using Jobs = std::vector<std::unique_ptr<CopyJob>>;

  [[nodiscard]] Jobs::iterator find(const TransferState& transfer) noexcept;
  CopyJob& job_of(TransferState& transfer);
  bool step(CopyJob& job) noexcept;
  bool start(CopyJob& job) noexcept;
  void flush(CopyJob& job) noexcept;
  void copy(CopyJob& job) noexcept;
  void ask_peer(CopyJob& job) noexcept;
  bool ask_engine(CopyJob& job) noexcept;
  void look(CopyJob& job, bool looks) noexcept;
  std::unique_ptr<CopyJob> take_out(TransferState& transfer) noexcept;
  void over(TransferState& transfer, EndpointState& endpoint) noexcept;

  WorkerState& worker_;
  Jobs jobs_;  // at most one an endpoint
};

}  // namespace hbmwire::detail
