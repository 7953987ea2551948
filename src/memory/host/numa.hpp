// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string_view>

#include "hbmwire/error.hpp"

namespace hbmwire::memory::host {

/// Whether memory can be bound to this NUMA node. Errors: Stage::open (the machine has no such
/// node, or the node has no memory).
Result<void> check_node(int node);

/// Binds pages that were never touched to a node (mbind(2), MPOL_BIND): they come from that node or
/// not at all. Errors: Stage::allocate.
Result<void> bind_to_node(void* memory, std::uint64_t size_bytes, int node,
                          std::string_view subject);

}  // namespace hbmwire::memory::host
