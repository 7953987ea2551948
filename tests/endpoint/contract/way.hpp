// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "hbmwire/hbmwire.hpp"

namespace hbmwire::test {

/// One way of moving bytes between two memories. All ways keep the same contract
/// (contract_test.cpp). emu1 imports no dma-bufs; "none" means TCP.
struct Way {
  const char* name;
  MemoryType here;
  MemoryType there;
  std::vector<std::string> nics = {"emu0"};        ///< NICs of this end
  std::vector<std::string> peers_nics = {"emu0"};  ///< NICs of the peer
  bool two_processes = false;                      ///< otherwise the peer is a thread of this
                                                   ///< process
  PathPolicy paths = {};                           ///< policy of both ends
  Path path = Path::host;                          ///< the path of large transfers
  bool lists = true;     ///< prepare_put() and prepare_get() accept this memory
  bool messages = true;  ///< messages work: a NIC reaches at least one of the two memories
  bool atomics = true;   ///< fetch_add() and compare_swap() work
  bool shared = true;    ///< host memory is HostMemoryOptions::shared if the path needs that
};

/// Prints only the name in a test's output.
void PrintTo(const Way& way, std::ostream* out);

/// All ways.
[[nodiscard]] std::span<const Way> ways();

/// Allocates memory of `type` as the way needs it: if `path` is Path::ipc or Path::shared_memory,
/// host memory that another process can map.
[[nodiscard]] Allocation allocate_for(const Context& context, const Way& way, MemoryType type,
                                      std::uint64_t bytes);

}  // namespace hbmwire::test
