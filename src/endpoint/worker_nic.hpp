// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "hbmwire/nic.hpp"

#include "message/receive_pool.hpp"
#include "message/unexpected_pool.hpp"
#include "mover/loopback_mover.hpp"
#include "mover/staged_mover.hpp"
#include "transport/verbs/completion_queue.hpp"
#include "verbs/handles.hpp"

namespace hbmwire::detail {

/// Lanes on one completion queue, which share their receives.
struct LaneGroup {
  transport::VerbsCompletionQueue* completions = nullptr;
  std::unique_ptr<ReceivePool> messages;
  std::unique_ptr<ReceivePool> control;
};

/// One NIC of a worker. Destroyed in reverse.
struct WorkerNic {
  /// A READ of the last byte of `operation`'s remote memory, behind a WRITE by this NIC.
  [[nodiscard]] transport::Operation read_last_of(
      const transport::Operation& operation) const noexcept;

  /// A READ of a byte at `address` of the peer's, behind which what the NIC wrote there is visible.
  [[nodiscard]] transport::Operation read_back(std::uint64_t address,
                                               std::uint32_t remote_key) const noexcept;

  Nic nic;
  verbs::CompletionChannel channel;
  Region results;  // 8 bytes for each transfer, and at the end kSpareBytes that nobody looks at
  std::vector<std::unique_ptr<transport::VerbsCompletionQueue>> completions{};
  std::unique_ptr<LoopbackMover> mover{};
  std::unique_ptr<StagedMover> staged{};
  std::vector<std::unique_ptr<LaneGroup>> groups{};
  std::unique_ptr<UnexpectedPool> unexpected{};  // once there is an endpoint
  bool told_down = false;                        // that its port is, by the log
  bool shares_receives = false;                  // as far as is known
  bool told_of_silence = false;                  // about IBV_EVENT_QP_LAST_WQE_REACHED, by the log
};

inline constexpr std::uint64_t kSpareBytes = 64;

/// Of READs and atomics, what a queue pair is given of its NIC's limit.
[[nodiscard]] inline std::uint8_t reads_of(int limit) noexcept {
  constexpr int kMost = 16;
  return static_cast<std::uint8_t>(std::clamp(limit, 1, kMost));
}

}  // namespace hbmwire::detail
