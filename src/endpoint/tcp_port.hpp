// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "hbmwire/low_level/connection.hpp"
#include "hbmwire/memory_domain.hpp"

#include "base/told_cause.hpp"
#include "endpoint/worker_nic.hpp"
#include "transport/staged/piece_pool.hpp"
#include "transport/tcp/completion_queue.hpp"

namespace hbmwire::detail {

struct WorkerState;

/// The part of a worker that its endpoints over TCP share: a completion queue, pieces of memory,
/// and the stand-in for a NIC.
class TcpPort {
 public:
  /// Errors: Stage::allocate.
  static Result<std::unique_ptr<TcpPort>> create(WorkerState& worker);
  TcpPort(const Context& context_of, WorkerNic nic_of);
  TcpPort(const TcpPort&) = delete;
  TcpPort& operator=(const TcpPort&) = delete;
  ~TcpPort() = default;

  /// Whether `nic` is the stand-in, and no NIC.
  [[nodiscard]] static bool stands_for(const NicState& nic) noexcept { return !nic.context; }

  [[nodiscard]] transport::TcpCompletionQueue& completions() noexcept { return completions_; }

  /// A piece of host memory that the engine of `device` (or null) copies through; null if there is
  /// none now.
  [[nodiscard]] std::byte* take_piece(MemoryDomain* device) noexcept;
  void give_back(std::byte* piece) noexcept;

  WorkerNic nic;  // the stand-in, without a channel and a LoopbackMover

 private:
  const Context& context_;
  transport::TcpCompletionQueue completions_;
  std::optional<transport::PiecePool> pieces_;  // once a device is involved
  ToldCause no_pieces_;                         // why there are no pieces, as the log has told
};

}  // namespace hbmwire::detail
