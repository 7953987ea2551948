// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "emulation/nic/state/limits.hpp"

namespace hbmwire::emulation::nic {

/// The most objects of each kind that a NIC has, counted over all processes, and the greatest
/// length of a completion queue. ibv_query_device() reports them. The defaults are the sizes of the
/// fabric's tables.
struct NicLimits {
  std::uint64_t qp = kMaxQps - 3;  // two are management QPs, one number is the multicast QP's
  std::uint64_t cq = kMaxCqs - 1;  // no table gives out its index 0
  std::uint64_t cqe = kMaxCqe;
  std::uint64_t mr = kMaxMrs - 1;
  std::uint64_t srq = kMaxSrqs - 1;  ///< 0: no SRQs; creating one fails as not supported

  bool operator==(const NicLimits&) const = default;
};

/// How a NIC differs from the default one, which is as fast as memory and completes requests at
/// once. It is stored in the node's sysfs tree, in the file class/infiniband/<nic>/behaviour, which
/// hardware does not have. The file has a line `key value` for each member (bools are 0 or 1).
struct Behaviour {
  std::uint64_t seed = 1;             ///< of the random numbers behind all of its choices
  std::uint64_t async_ns = 0;         ///< most time that a request travels longer, chosen at random
  std::uint64_t rate_bits_per_s = 0;  ///< of each port, in each direction; 0: no limit
  std::uint64_t latency_ns = 0;       ///< one way, added to the time that the rate takes
  bool flush = false;                 ///< incoming data reaches a card's engines only after a flush
  bool scatter = false;               ///< a small receive stays in the CQE until polled (as mlx5)
  bool relaxed = false;               ///< writes with IBV_ACCESS_RELAXED_ORDERING land in any order
  bool dmabuf = true;                 ///< imports dma-bufs
  bool atomics = true;                ///< has atomic operations
  bool last_wqe = true;               ///< raises IBV_EVENT_QP_LAST_WQE_REACHED
  NicLimits limits{};

  bool operator==(const Behaviour&) const = default;

  /// Whether requests may still be incomplete when ibv_post_send() returns.
  [[nodiscard]] bool takes_time() const {
    return async_ns != 0 || rate_bits_per_s != 0 || latency_ns != 0;
  }
};

/// Writes and reads the content of the file. Unknown lines are ignored; missing lines, and a
/// missing file, give the defaults.
std::string to_text(const Behaviour& behaviour);
Behaviour read_behaviour(const std::filesystem::path& file);

}  // namespace hbmwire::emulation::nic
