// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "hbmwire/low_level/connection.hpp"
#include "hbmwire/nic.hpp"

/// Messages between the two sides of `hbmwire perf` over their control channel (messages.hpp).
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

/// Client to server, first message: all parameters of the measurement, so that both sides use the
/// same. Decoding refuses values outside their bounds. Values that do not fit the test or the
/// device are refused later, where they are used.
struct PerfRequest {
  PerfTest test = PerfTest::write_bw;
  PerfConnection connection = PerfConnection::rc;
  std::uint64_t size_bytes = 65536;  ///< the largest size of a sweep
  std::uint64_t iterations = 5000;   ///< for each queue pair; 0: for `duration_s`
  std::uint32_t duration_s = 0;      ///< 0: by `iterations`
  std::uint32_t queue_pairs = 1;
  std::uint32_t tx_depth = 128;
  std::uint32_t rx_depth = 512;
  std::uint32_t post_list = 1;            ///< requests posted by one call
  std::uint32_t inline_bytes = 0;         ///< for messages up to this size the CPU copies the data
                                          ///< into the request
  std::uint32_t cq_moderation = 0;        ///< requests per completion; 0: depends on the size
  std::uint32_t mtu_bytes = 0;            ///< 0: the smaller MTU of both ports
  std::uint32_t reads_out = 0;            ///< reads and atomics in flight; 0: as many as both NICs
                                          ///< support
  std::uint32_t flows = 1;                ///< separate regions that a queue pair cycles through
  std::uint32_t burst = 1;                ///< messages that may be sent at once under a rate limit
  std::uint32_t seed = 0;                 ///< seed of the patterns
  std::uint64_t bytes_per_second = 0;     ///< rate limit; 0: no limit
  std::uint64_t messages_per_second = 0;  ///< rate limit; 0: no limit
  std::uint8_t service_level = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t ack_timeout = 14;  ///< 4.096 us * 2^ack_timeout
  std::uint8_t retries = 7;
  bool all_sizes = false;  ///< from 2 bytes to size_bytes
  bool bidirectional = false;
  bool events = false;   ///< sleep until completions arrive
  bool rdma_cm = false;  ///< rdma_cm connects the queue pairs
  bool verify = true;
  bool compare_swap = false;  ///< atomics: compare-and-swap instead of fetch-and-add
  bool warm_up = false;
  bool one_by_immediate = false;  ///< write_lat: by WRITE with immediate for any memory
  std::string memory;             ///< the server's memory: "gaudi", "cuda:1"; empty: the server
                                  ///< chooses

  bool operator==(const PerfRequest&) const = default;
};

/// Both ways: the description of a side after it has registered its memory.
struct PerfSide {
  struct Limit {
    std::uint8_t kind = 0;  ///< of tools::Limit::Kind
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
  std::uint32_t reads_in = 0;   ///< reads and atomics in flight that a queue pair can answer
  std::uint32_t reads_out = 0;  ///< reads and atomics in flight that a queue pair can request
  bool on_device = false;       ///< the CPU cannot access the memory
  bool emulated = false;

  bool operator==(const PerfSide&) const = default;
};

/// Both ways: the address of a side's queue pairs and memory, or of its endpoint's listener.
struct PerfQueues {
  struct Queue {
    std::uint32_t number = 0;           ///< 24 bits
    std::uint32_t packet_sequence = 0;  ///< 24 bits
    bool operator==(const Queue&) const = default;
  };

  ConnectionAddress first;  ///< address of the first queue pair, with the values that all share
  RemoteMemory memory;
  std::vector<Queue> queues;       ///< at most kMaxPerfQueuePairs
  std::uint16_t service_port = 0;  ///< the port of rdma_cm or of the listener; 0: there is none

  bool operator==(const PerfQueues&) const = default;
};

/// Both ways, after each size: the measurements and results of a side. Rates and times are bit
/// patterns of IEEE doubles; NaN and infinity are refused.
struct PerfReport {
  std::uint64_t messages = 0;  ///< messages that this side moved in the timed part
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
