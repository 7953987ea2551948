// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "hbmwire/low_level/connection.hpp"
#include "hbmwire/nic.hpp"

/// Messages that the two sides of `hbmwire perf` send to each other over their control channel
/// (messages.hpp).
namespace hbmwire::tools::wire {

enum class PerfTest : std::uint8_t {
  write_bw = 1,
  write_lat,
  read_bw,
  read_lat,
  send_bw,
  send_lat,
  atomic_bw,
  atomic_lat,
  put_bw,
  put_lat,
  get_bw,
  get_lat,
  tag_bw,
  tag_lat,
};

enum class PerfConnection : std::uint8_t { rc = 1, uc, ud };

inline constexpr std::uint32_t kMaxPerfQueuePairs = 4096;
inline constexpr std::uint32_t kMaxPerfDepth = 1 << 20;
inline constexpr std::uint32_t kMaxPerfFlows = 1024;
inline constexpr std::uint64_t kMaxPerfSizeBytes = 1ULL << 30;
inline constexpr std::uint64_t kMaxPerfIterations = 1ULL << 40;
inline constexpr std::size_t kMaxPerfListLength = 16;  ///< explanations, limits

/// Client to server, first: all that decides what is measured, so that the two can't disagree.
/// Decoding refuses what is out of bounds; what fits neither test nor device is refused by whoever
/// meets it.
struct PerfRequest {
  PerfTest test = PerfTest::write_bw;
  PerfConnection connection = PerfConnection::rc;
  std::uint64_t size_bytes = 65536;  ///< the largest of a sweep
  std::uint64_t iterations = 5000;   ///< of each queue pair; 0: by time
  std::uint32_t duration_s = 0;      ///< 0: by iterations
  std::uint32_t queue_pairs = 1;
  std::uint32_t tx_depth = 128;
  std::uint32_t rx_depth = 512;
  std::uint32_t post_list = 1;            ///< requests handed over by one call
  std::uint32_t inline_bytes = 0;         ///< of messages up to this size the CPU copies the data
  std::uint32_t cq_moderation = 0;        ///< one completion for so many requests; 0: by size
  std::uint32_t mtu_bytes = 0;            ///< 0: the smaller one of both ports
  std::uint32_t reads_out = 0;            ///< reads and atomics under way; 0: what both NICs can
  std::uint32_t flows = 1;                ///< regions of its own that a queue pair goes through
  std::uint32_t burst = 1;                ///< messages that may leave at once below a rate
  std::uint32_t seed = 0;                 ///< of the patterns
  std::uint64_t bytes_per_second = 0;     ///< rate limit; 0: none
  std::uint64_t messages_per_second = 0;  ///< rate limit; 0: none
  std::uint8_t service_level = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t ack_timeout = 14;  ///< 4.096 us * 2^it
  std::uint8_t retries = 7;
  bool all_sizes = false;  ///< 2 bytes to size_bytes
  bool bidirectional = false;
  bool events = false;   ///< sleep until there are completions
  bool rdma_cm = false;  ///< queue pairs are connected by rdma_cm
  bool verify = true;
  bool compare_swap = false;  ///< atomics: compare and swap, not fetch and add
  bool warm_up = false;
  bool one_by_immediate = false;  ///< write_lat: by WRITE with immediate, whatever the memories
  std::string memory;             ///< the server's: "gaudi", "cuda:1"; empty: its own choice

  bool operator==(const PerfRequest&) const = default;
};

/// Both ways: what a side is, once its memory is registered.
struct PerfSide {
  struct Limit {
    std::uint8_t kind = 0;
    std::uint64_t bytes_per_second = 0;
    std::string what;
    bool operator==(const Limit&) const = default;
  };

  std::string host;
  std::string nic;
  std::string memory;
  std::string device;
  std::string path;
  std::string distance;
  std::vector<std::string> explanation;
  std::vector<Limit> limits;
  std::uint64_t registered_bytes = 0;
  std::uint64_t registration_ns = 0;
  std::uint32_t registrations = 0;
  std::uint32_t mtu_bytes = 0;
  std::uint32_t reads_in = 0;   ///< reads and atomics that a queue pair answers at a time, and
  std::uint32_t reads_out = 0;  ///< asks for
  bool on_device = false;       ///< the CPU can't reach the memory
  bool emulated = false;

  bool operator==(const PerfSide&) const = default;
};

/// Both ways: how to reach a side's queue pairs and memory, or its endpoint's listener.
struct PerfQueues {
  struct Queue {
    std::uint32_t number = 0;           ///< 24 bits
    std::uint32_t packet_sequence = 0;  ///< 24 bits
    bool operator==(const Queue&) const = default;
  };

  ConnectionAddress first;  ///< of the first queue pair; what the others share
  RemoteMemory memory;
  std::vector<Queue> queues;       ///< at most kMaxPerfQueuePairs
  std::uint16_t service_port = 0;  ///< where rdma_cm, or a listener, waits; 0: none does

  bool operator==(const PerfQueues&) const = default;
};

/// Both ways, after each size: what a side measured and found. Rates and times are bit patterns of
/// IEEE doubles; NaN and infinity are refused.
struct PerfReport {
  std::uint64_t messages = 0;  ///< that this side moved in the timed part
  double average_bytes_per_second = 0;
  double peak_bytes_per_second = 0;
  double messages_per_second = 0;
  double min_ns = 0;
  double max_ns = 0;
  double typical_ns = 0;
  double average_ns = 0;
  double stdev_ns = 0;
  double percentile_99_ns = 0;
  double percentile_99_9_ns = 0;
  double cpu_user = 0;
  double cpu_system = 0;
  std::uint64_t slots = 0;
  std::uint64_t compared_bytes = 0;
  std::uint64_t wrong_bytes = 0;
  std::uint64_t arrivals = 0;
  std::string problem;

  bool operator==(const PerfReport&) const = default;
};

}  // namespace hbmwire::tools::wire
