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

/// One NIC of a worker. The order of the members matters: they are destroyed in reverse.
struct WorkerNic {
  /// A READ of the last byte of `operation`'s remote memory. It flushes a WRITE that this NIC made
  /// before it.
  [[nodiscard]] transport::Operation read_last_of(
      const transport::Operation& operation) const noexcept;

  /// A READ of a byte at `address` of the peer's memory. When it is over, bytes that the NIC wrote
  /// there are visible.
  [[nodiscard]] transport::Operation read_back(std::uint64_t address,
                                               std::uint32_t remote_key) const noexcept;

  Nic nic;
  verbs::CompletionChannel channel;
  Region results;  // 8 bytes for each transfer, then kSpareBytes that read_back() writes to and no
                   // code reads
  std::vector<std::unique_ptr<transport::VerbsCompletionQueue>> completions{};
  std::unique_ptr<LoopbackMover> mover{};
  std::unique_ptr<StagedMover> staged{};
  std::vector<std::unique_ptr<LaneGroup>> groups{};
  std::unique_ptr<UnexpectedPool> unexpected{};  // once there is an endpoint
  bool told_down = false;                        // the log has told that its port is down
  bool shares_receives = false;                  // new endpoints try to share receives
  bool told_of_silence = false;                  // the log has told that
                                                 // IBV_EVENT_QP_LAST_WQE_REACHED does not come
};

inline constexpr std::uint64_t kSpareBytes = 64;

/// How many READs and atomics under way a queue pair gets of its NIC's limit.
[[nodiscard]] inline std::uint8_t reads_of(int limit) noexcept {
  constexpr int kMost = 16;
  return static_cast<std::uint8_t>(std::clamp(limit, 1, kMost));
}

}  // namespace hbmwire::detail
