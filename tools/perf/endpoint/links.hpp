// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hbmwire/endpoint.hpp"
#include "hbmwire/memory_key.hpp"
#include "hbmwire/worker.hpp"

#include "tools/perf/engine.hpp"

namespace hbmwire::tools::perf {

/// An endpoint, and the progress of its traffic.
struct Link {
  Endpoint endpoint;
  RemoteRegion remote;       ///< the peer's buffer
  std::uint64_t source = 0;  ///< offset of its areas in each half of the buffers
  std::uint64_t target = 0;
  std::vector<Transfer> sent;  ///< rings: one place for each transfer that may be in flight
  std::vector<Transfer> received;

  // --- of a pass ---
  std::uint64_t started = 0;
  std::uint64_t finished = 0;
  std::uint64_t limit = 0;     ///< the most transfers to start
  std::uint64_t expected = 0;  ///< receives posted so far
  std::uint64_t taken = 0;     ///< messages received so far
  std::size_t next_slot = 0;
  std::size_t next_receive_slot = 0;
};

/// The endpoints of one side, all with one worker.
struct Links {
  const Region* region = nullptr;  ///< this side's buffer
  Worker worker;
  MemoryKey key;  ///< gives the peer access to this side's buffer, while it lives
  std::vector<Link> links;
};

/// Makes as many endpoints as the request has queue pairs, and exchanges keys to the buffers over
/// them. The server listens on a separate port, which it sends over the control channel.
Outcome<Links> connect_links(const Work& work);

}  // namespace hbmwire::tools::perf
