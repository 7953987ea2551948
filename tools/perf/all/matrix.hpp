// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/perf/result.hpp"

/// The result of `hbmwire perf --all`: values only. The runner fills it in, and the terminal, JSON,
/// CSV, heat map and comparison are made of it. Rates are bytes a second.
namespace hbmwire::tools::perf::all {

/// One NIC of one rank together with one memory near it: a row and a column of the matrix.
struct End {
  std::uint32_t rank = 0;
  std::string host = {};             ///< the node's name
  std::string nic = {};              ///< "mlx5_0:1"
  std::string memory = {};           ///< "host", "gaudi"
  std::string device = {};           ///< "gaudi2 0000:33:00.0"; empty for host memory
  std::string path = {};             ///< how the NIC reaches the memory: "zero-copy dma-buf"
  std::string distance = {};         ///< of NIC and device, "PIX"; empty where there is none
  double link_bytes_per_second = 0;  ///< the NIC's link, as it is now; 0: not known
  std::vector<std::string> facts =
      {};  ///< doctor's findings about this NIC or device, a sentence each
};

/// The outcome of one cell.
enum class CellState : std::uint8_t {
  not_measured,  ///< the run ended before, or the rank of one end had gone
  measured,
  unreachable,  ///< no connection: `problem` says why
  broken,       ///< a connection that failed while it was measured
  corrupt       ///< bytes that arrived differ from those that were sent
};

/// From one end to another, by RDMA writes.
struct Cell {
  std::size_t source = 0;  ///< index into MatrixRun::ends
  std::size_t target = 0;
  CellState state = CellState::not_measured;
  double bytes_per_second = 0;       ///< 0 unless measured
  std::uint64_t verified_bytes = 0;  ///< compared at the target; 0: not verified
  std::string path = {};             ///< how the transfers went, in the library's words
  std::string problem = {};          ///< one sentence; empty for a measured cell
};

/// A rank that did not reach the end of the run.
struct BrokenRank {
  std::uint32_t rank = 0;
  std::string host = {};
  std::string problem = {};  ///< "killed or ended while round 3 was measured"
};

/// One run.
struct MatrixRun {
  std::uint32_t ranks = 0;
  std::string launcher = {};  ///< Group::launcher()
  bool emulated = false;
  bool verified = true;  ///< false: --no-verify
  std::uint64_t message_bytes = 0;
  double seconds_per_cell = 0;  ///< how long a cell is measured
  std::vector<End> ends = {};   ///< by rank, then in the NICs' order
  /// Every ordered pair of ends of different ranks, by source, then target. Measured in rounds of
  /// disjoint pairs of ranks.
  std::vector<Cell> pairs = {};
  /// Every end writes to one end of the next rank, all at the same time.
  std::vector<Cell> all_at_once = {};
  /// The ends of all other ranks write to one end of each target rank at the same time: the cells
  /// of a target are together.
  std::vector<Cell> many_to_one = {};
  std::vector<BrokenRank> broken = {};
};

}  // namespace hbmwire::tools::perf::all
