// SPDX-License-Identifier: MIT
#pragma once

#include <cstdlib>

namespace hbmwire::bench {

/// Has the benchmark measure the NIC's way, also between processes of one node: not shared memory.
/// HBMWIRE_PATHS says so to this program and those that it starts. Before any thread is.
inline void go_by_nic() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe)
  ::setenv("HBMWIRE_PATHS", "zero_copy,peer_memory,host,staged,copy,tcp", 0);
}

}  // namespace hbmwire::bench
