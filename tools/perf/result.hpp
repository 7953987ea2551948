// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/common/hardware.hpp"
#include "tools/common/output.hpp"

/// What a run of `hbmwire perf` gives: values only, which engines fill in and which text, JSON,
/// plot, comparison and verdict are made of. Times are in nanoseconds, rates in bytes or messages a
/// second; whoever shows them chooses the units.
namespace hbmwire::tools::perf {

enum class Measure : std::uint8_t { bandwidth, latency };

struct Bandwidth {
  double peak_bytes_per_second = 0;  ///< 0: not measured
  double average_bytes_per_second = 0;
  double messages_per_second = 0;
  double noise = 0;  ///< relative, as noise_of() has it; 0: not measured
};

/// One way: half a round trip where the test bounces messages.
struct Latency {
  double min_ns = 0;
  double max_ns = 0;
  double typical_ns = 0;  ///< the median
  double average_ns = 0;
  double stdev_ns = 0;
  double percentile_99_ns = 0;
  double percentile_99_9_ns = 0;
  double noise = 0;  ///< of the typical, relative; 0: not measured
};

/// What a process spent while a row was measured. 1.0 is one CPU all of the time.
struct CpuUse {
  double user = 0;
  double system = 0;

  [[nodiscard]] double total() const noexcept { return user + system; }
};

/// What was compared around the timed part of a row, on both sides together.
struct Verification {
  bool wanted = true;             ///< false: --no-verify
  std::uint64_t slots = 0;        ///< places in device memory compared, all passes
  std::uint64_t bytes = 0;        ///< compared
  std::uint64_t wrong_bytes = 0;  ///< of these
  std::uint64_t arrivals = 0;     ///< completions the receiver counted, where there are any
  std::uint64_t expected_arrivals = 0;
  std::string problem = {};  ///< the first one, as a sentence; empty: none

  [[nodiscard]] bool passed() const noexcept {
    return wanted && slots != 0 && wrong_bytes == 0 && arrivals == expected_arrivals &&
           problem.empty();
  }
};

/// One size.
struct Row {
  std::uint64_t size_bytes = 0;
  std::uint64_t iterations = 0;  ///< of all queue pairs, one direction
  std::optional<Bandwidth> bandwidth = {};
  std::optional<Latency> latency = {};
  std::optional<CpuUse> cpu = {};       ///< of this side
  std::optional<CpuUse> peer_cpu = {};  ///< of the other side
  double memcpy_bytes_per_second = 0;  ///< of this size, where the limit is memcpy; 0: not measured
  Verification verification = {};
  std::string path = {};  ///< how a transfer of the endpoint API went, by its own words
  /// The bytes of all messages of the endpoint API that this side started for the row, verification
  /// and warm-up among them; empty: a test of verbs.
  std::optional<std::uint64_t> moved_bytes = {};

  /// Whether its figures may be shown: the bytes arrived, or nobody was to look.
  [[nodiscard]] bool is_trusted() const noexcept {
    return !verification.wanted || verification.passed();
  }
};

/// One of the two sides.
struct Side {
  std::string host = {};    ///< the node's name
  std::string nic = {};     ///< "mlx5_0:1"
  std::string memory = {};  ///< "gaudi"
  std::string device = {};  ///< "gaudi2 0000:33:00.0"; empty for host memory
  std::string path = {};    ///< "zero-copy dma-buf", as to_string(Path) has it
  std::vector<std::string> explanation =
      {};                     ///< why no better path was taken; empty: it is the best
  std::string distance = {};  ///< of NIC and device: "PIX"; empty where there is none
  std::uint64_t registered_bytes = 0;
  double registration_ns = 0;  ///< all of them together
  std::uint64_t registrations = 0;
  std::vector<Limit> limits = {};
};

/// A parameter as the banner and the JSON show it.
struct Parameter {
  std::string label = {};  ///< "TX depth"
  std::string key = {};    ///< "tx_depth"
  Json value = {};
};

/// The limit that applies and how far the run came.
struct Verdict {
  Limit limit = {};              ///< of both directions, where the run has both
  std::uint64_t size_bytes = 0;  ///< of the row that came closest
  double reached_bytes_per_second = 0;
  double share = 0;  ///< of the limit
};

/// A whole run, of one size or of a sweep.
struct RunResult {
  std::string test = {};   ///< "write_bw"
  std::string title = {};  ///< "RDMA_Write Bidirectional BW Test"
  Measure measure = Measure::bandwidth;
  bool bidirectional = false;  ///< rates are of both directions together
  bool verified = true;        ///< false: --no-verify
  bool emulated = false;
  std::vector<Parameter> parameters = {};  ///< in the order in which they are shown
  Side local = {};
  Side remote = {};
  std::vector<Row> rows = {};           ///< ascending sizes
  std::optional<Verdict> verdict = {};  ///< none: no limit is known
  std::string why_no_verdict = {};
};

}  // namespace hbmwire::tools::perf
