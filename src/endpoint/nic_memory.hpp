// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "hbmwire/context.hpp"
#include "hbmwire/region.hpp"

#include "verbs/handles.hpp"

namespace hbmwire::detail {

struct WorkerNic;

/// Host memory of the library for messages, registered with one NIC of a worker, and for its
/// LoopbackMover. Over TCP it is registered with none.
struct NicMemory {
  /// Errors: Stage::allocate, Stage::register_memory.
  static Result<NicMemory> make(const Context& context, const WorkerNic& nic, std::uint64_t size);

  std::byte* bytes = nullptr;
  std::uint32_t local_key = 0;
  std::uint32_t mover_key = 0;  // the key by which the mover reads it; 0: there is no mover

  std::optional<Region> region;
  verbs::Mr for_mover;
};

}  // namespace hbmwire::detail
