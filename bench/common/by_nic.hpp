// SPDX-License-Identifier: MIT
#pragma once

#include <cstdlib>

namespace hbmwire::bench {

/// Makes the benchmark measure transfers by the NIC, even between processes of one node: excludes
/// shared memory. It sets HBMWIRE_PATHS for this program and for programs that it starts. Call it
/// before any thread exists.
inline void go_by_nic() {
  // 0: a setting of the caller's environment has precedence.
  // NOLINTNEXTLINE(concurrency-mt-unsafe)
  ::setenv("HBMWIRE_PATHS", "zero_copy,peer_memory,host,staged,copy,tcp", 0);
}

}  // namespace hbmwire::bench
