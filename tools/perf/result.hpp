// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/common/hardware.hpp"
#include "tools/common/output.hpp"

/// The results of a run of `hbmwire perf`. They are plain values: engines fill them in, and text,
/// JSON, plot, comparison and verdict are made from them. Times are in nanoseconds, rates in bytes
/// or messages per second; each output chooses its own units.
namespace hbmwire::tools::perf {

enum class Measure : std::uint8_t { bandwidth, latency };

struct Bandwidth {
  double peak_bytes_per_second = 0;  ///< 0 if not measured
  double average_bytes_per_second = 0;
  double messages_per_second = 0;
  double noise = 0;  ///< relative, from noise_of(); 0 if not measured
};

/// The time of one direction: half a round trip if the test bounces messages.
struct Latency {
  double min_ns = 0;
  double max_ns = 0;
  double typical_ns = 0;  ///< the median
  double average_ns = 0;
  double stdev_ns = 0;
  double percentile_99_ns = 0;
  double percentile_99_9_ns = 0;
  double noise = 0;  ///< of typical_ns, relative; 0 if not measured
};

/// CPU time that a process used during the measurement of a row. 1.0 means one CPU all the time.
struct CpuUse {
  double user = 0;
  double system = 0;

  [[nodiscard]] double total() const noexcept { return user + system; }
};

/// The results of comparing bytes around the timed part of a row, for both sides together.
struct Verification {
  bool wanted = true;             ///< false: --no-verify
  std::uint64_t slots = 0;        ///< places in device memory compared in all passes
  std::uint64_t bytes = 0;        ///< compared bytes
  std::uint64_t wrong_bytes = 0;  ///< compared bytes that were wrong
  std::uint64_t arrivals = 0;     ///< completions that the receiver counted, if any
  std::uint64_t expected_arrivals = 0;
  std::string problem = {};  ///< the first fault as a sentence; empty if there is none

  [[nodiscard]] bool passed() const noexcept {
    return wanted && slots != 0 && wrong_bytes == 0 && arrivals == expected_arrivals &&
           problem.empty();
  }
};

/// The results for one size.
struct Row {
  std::uint64_t size_bytes = 0;
  std::uint64_t iterations = 0;  ///< over all queue pairs, in one direction
  std::optional<Bandwidth> bandwidth = {};
  std::optional<Latency> latency = {};
  std::optional<CpuUse> cpu = {};       ///< of this side
  std::optional<CpuUse> peer_cpu = {};  ///< of the other side
  double memcpy_bytes_per_second = 0;  ///< for this size, if memcpy is the limit; 0 if not measured
  Verification verification = {};
  std::string path = {};  ///< the path that a transfer of the endpoint API reported
  /// The bytes of all messages that this side started through the endpoint API for the row,
  /// including verification and warm-up. Empty for a test of verbs.
  std::optional<std::uint64_t> moved_bytes = {};

  /// Whether its figures may be shown: the bytes arrived, or verification was switched off.
  [[nodiscard]] bool is_trusted() const noexcept {
    return !verification.wanted || verification.passed();
  }
};

/// One of the two sides.
struct Side {
  std::string host = {};    ///< name of the node
  std::string nic = {};     ///< "mlx5_0:1"
  std::string memory = {};  ///< "gaudi"
  std::string device = {};  ///< "gaudi2 0000:33:00.0"; empty for host memory
  std::string path = {};    ///< "zero-copy dma-buf", as in to_string(Path)
  std::vector<std::string> explanation =
      {};                     ///< why no better path was taken; empty if it is the best
  std::string distance = {};  ///< between NIC and device: "PIX"; empty if there is none
  std::uint64_t registered_bytes = 0;
  double registration_ns = 0;  ///< total time of all registrations
  std::uint64_t registrations = 0;
  std::vector<Limit> limits = {};
};

/// A parameter as the banner and the JSON show it.
struct Parameter {
  std::string label = {};  ///< "TX depth"
  std::string key = {};    ///< "tx_depth"
  Json value = {};
};

/// The limit that applies, and the share of it that the run reached.
struct Verdict {
  Limit limit = {};              ///< for both directions if the run has both
  std::uint64_t size_bytes = 0;  ///< the size of the row that came closest
  double reached_bytes_per_second = 0;
  double share = 0;  ///< reached share of the limit
};

/// The results of a whole run, with one size or a sweep.
struct RunResult {
  std::string test = {};   ///< "write_bw"
  std::string title = {};  ///< "RDMA_Write Bidirectional BW Test"
  Measure measure = Measure::bandwidth;
  bool bidirectional = false;  ///< rates are sums of both directions
  bool verified = true;        ///< false: --no-verify
  bool emulated = false;
  std::vector<Parameter> parameters = {};  ///< in the order of the output
  Side local = {};
  Side remote = {};
  std::vector<Row> rows = {};           ///< sizes ascend
  std::optional<Verdict> verdict = {};  ///< empty if no limit is known
  std::string why_no_verdict = {};
};

}  // namespace hbmwire::tools::perf
