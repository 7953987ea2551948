// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/perf/all/local_end.hpp"
#include "tools/perf/all/matrix.hpp"

/// Messages between the ranks of a run, as JSON in the bytes of Group::exchange(). They may come
/// from another version of the program, or from a stranger.
namespace hbmwire::tools::perf::all {

using Bytes = std::vector<std::byte>;

/// How cells are measured. Rank 0's parameters apply to all ranks.
struct MatrixParameters {
  std::uint64_t message_bytes = 0;
  std::uint64_t time_ms = 0;
  bool verify = true;
};

/// The hardware of a rank, before anything is opened.
struct Inventory {
  MatrixParameters parameters = {};
  std::vector<End> ends = {};
  std::string problem = {};  ///< why the rank has no hardware, and takes no part
};

/// An end, opened.
struct OpenedEnd {
  RemoteEnd remote = {};
  std::string path = {};
  std::string problem = {};  ///< why it could not be opened
};

/// A report on one cell of a step. The rank of its source reports the state and the rate, the rank
/// of its target the bytes that were compared.
struct CellReport {
  std::size_t cell = 0;
  CellState state = CellState::not_measured;
  double bytes_per_second = 0;
  std::uint64_t verified_bytes = 0;
  std::string path = {};
  std::string problem = {};
};

/// Doctor's findings about each end of a rank.
using Facts = std::vector<std::vector<std::string>>;

[[nodiscard]] Bytes encode(const Inventory& inventory);
[[nodiscard]] Bytes encode(const std::vector<OpenedEnd>& ends);
[[nodiscard]] Bytes encode(const std::vector<CellReport>& reports);
[[nodiscard]] Bytes encode(const Facts& facts);

/// Nothing where the bytes are not what the function reads.
[[nodiscard]] std::optional<Inventory> decode_inventory(std::span<const std::byte> bytes);
[[nodiscard]] std::optional<std::vector<OpenedEnd>> decode_opened(std::span<const std::byte> bytes);
[[nodiscard]] std::optional<std::vector<CellReport>> decode_reports(
    std::span<const std::byte> bytes);
[[nodiscard]] std::optional<Facts> decode_facts(std::span<const std::byte> bytes);

}  // namespace hbmwire::tools::perf::all
