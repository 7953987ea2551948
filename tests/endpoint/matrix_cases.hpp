// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hbmwire/memory.hpp"

/// The transfer matrix, as a table: what is transferred, from where to where, how much, and between
/// whom.
namespace hbmwire::matrix {

enum class Operation : std::uint8_t {
  put,
  get,
  fetch_add,
  compare_swap,
  put_immediate,
  send,
  send_tagged,
  put_list,
  get_list,
};

enum class Place : std::uint8_t {
  threads,    ///< both ends in one process
  processes,  ///< of one node
  nodes,      ///< of two nodes
};

/// A row of the matrix, each column by its index in the tables below.
inline constexpr std::size_t kColumns = 5;
using Row = std::array<std::size_t, kColumns>;

enum Column : std::size_t { operation, source, target, size, place };

inline constexpr std::array kOperations{
    Operation::put,          Operation::get,           Operation::fetch_add,
    Operation::compare_swap, Operation::put_immediate, Operation::send,
    Operation::send_tagged,  Operation::put_list,      Operation::get_list};

/// Bytes; the last one is that of atomics, and theirs alone.
inline constexpr std::array<std::uint64_t, 7> kSizes{0, 1, 4095, 65537, 4 << 20, 256 << 20, 8};
inline constexpr std::size_t kAtomicSize = 6;

inline constexpr std::array kPlaces{Place::threads, Place::processes, Place::nodes};

[[nodiscard]] std::string_view to_string(Operation operation) noexcept;
[[nodiscard]] std::string_view to_string(Place place) noexcept;

/// "put gaudi -> cuda, 65537 bytes, threads".
[[nodiscard]] std::string to_string(const Row& row);

[[nodiscard]] bool is_atomic(Operation operation) noexcept;

/// All rows that there are: an atomic has one size, and no source but the host's answer.
[[nodiscard]] std::vector<Row> all_rows();

/// Some of all_rows(), in which each two values of different columns meet that meet there.
[[nodiscard]] std::vector<Row> pairwise_rows();

}  // namespace hbmwire::matrix
