// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "hbmwire/hbmwire.hpp"

namespace hbmwire::test {

/// One way of moving bytes between two memories, all of which keep the same contract
/// (contract_test.cpp). emu1 imports no dma-bufs; "none" is TCP.
struct Way {
  const char* name;
  MemoryType here;
  MemoryType there;
  std::vector<std::string> nics = {"emu0"};        ///< of this end
  std::vector<std::string> peers_nics = {"emu0"};  ///< of the peer
  bool two_processes = false;                      ///< else the peer is a thread of this process
  PathPolicy paths = {};                           ///< of both ends
  Path path = Path::host;                          ///< that large transfers then take
  bool lists = true;     ///< prepare_put() and prepare_get() take such memory
  bool messages = true;  ///< a NIC reaches at least one of the two memories
  bool atomics = true;   ///< so do fetch_add() and compare_swap()
  bool shared = true;    ///< host memory is HostMemoryOptions::shared, where the path needs that
};

/// Its name alone, in a test's output.
void PrintTo(const Way& way, std::ostream* out);

/// Every way there is.
[[nodiscard]] std::span<const Way> ways();

/// Memory of `type` as that way needs it: host memory that another process can map, where `path` is
/// Path::ipc or Path::shared_memory.
[[nodiscard]] Allocation allocate_for(const Context& context, const Way& way, MemoryType type,
                                      std::uint64_t bytes);

}  // namespace hbmwire::test
