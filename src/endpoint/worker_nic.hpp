// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "hbmwire/nic.hpp"

#include "endpoint/local_mover.hpp"
#include "endpoint/staged_mover.hpp"
#include "transport/verbs/lane.hpp"
#include "verbs/handles.hpp"

namespace hbmwire::detail {

/// One NIC of a worker. Destroyed in reverse.
struct WorkerNic {
  Nic nic;
  verbs::CompletionChannel channel;
  Region results;  // 8 bytes for each transfer, and at the end kSpareBytes that nobody looks at
  std::vector<std::unique_ptr<transport::CompletionQueue>> completions;
  std::unique_ptr<LocalMover> mover;
  std::unique_ptr<StagedMover> staged;  // once something is staged
};

inline constexpr std::uint64_t kSpareBytes = 64;

}  // namespace hbmwire::detail
