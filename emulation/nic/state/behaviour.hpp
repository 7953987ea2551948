// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "emulation/nic/state/limits.hpp"

namespace hbmwire::emulation::nic {

/// How many objects of a kind a NIC has, in all processes, and how long its completion queues may
/// be. ibv_query_device reports it. By default as many as the fabric's tables hold.
struct NicLimits {
  std::uint64_t qp = kMaxQps - 3;  // two are of management, and one number is the multicast QP's
  std::uint64_t cq = kMaxCqs - 1;
  std::uint64_t cqe = kMaxCqe;
  std::uint64_t mr = kMaxMrs - 1;
  std::uint64_t srq = kMaxSrqs - 1;  ///< 0: it has none, and creating one is not supported

  bool operator==(const NicLimits&) const = default;
};

/// How a NIC is unlike the default one, which is as fast as memory and completes at once. Part of
/// the configuration that a node's sysfs tree is: file `behaviour` of class/infiniband/<nic>, which
/// hardware does not have, with a line `key value` for each member (bools are 0 or 1).
struct Behaviour {
  std::uint64_t seed = 1;             ///< of everything that happens by chance
  std::uint64_t async_ns = 0;         ///< a request travels up to this much longer, by chance
  std::uint64_t rate_bits_per_s = 0;  ///< of each port and direction; 0: no limit
  std::uint64_t latency_ns = 0;       ///< one way, on top of what the rate takes
  bool flush = false;    ///< what comes in reaches a card's own engines only after a flush
  bool scatter = false;  ///< small receives are in the CQE until they are polled (mlx5)
  bool relaxed = false;  ///< writes to memory with IBV_ACCESS_RELAXED_ORDERING land in any order
  bool dmabuf = true;    ///< imports dma-bufs
  bool atomics = true;   ///< has atomic operations
  bool last_wqe = true;  ///< raises IBV_EVENT_QP_LAST_WQE_REACHED
  NicLimits limits{};

  bool operator==(const Behaviour&) const = default;

  /// Whether requests take time: they are not complete when ibv_post_send returns.
  [[nodiscard]] bool takes_time() const {
    return async_ns != 0 || rate_bits_per_s != 0 || latency_ns != 0;
  }
};

/// The file's content, and what a file says; unknown lines and a missing file are the default.
std::string to_text(const Behaviour& behaviour);
Behaviour read_behaviour(const std::filesystem::path& file);

}  // namespace hbmwire::emulation::nic
