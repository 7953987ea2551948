// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hbmwire/memory.hpp"

/// The transfer matrix as a table: the operation, the source, the target, the size, and the places
/// of the two ends.
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
  processes,  ///< two processes of one node
  nodes,      ///< processes of two nodes
};

/// A row of the matrix, each column by its index in the tables below.
inline constexpr std::size_t kColumns = 5;
using Row = std::array<std::size_t, kColumns>;

enum Column : std::size_t { operation, source, target, size, place };

inline constexpr std::array kOperations{
    Operation::put,          Operation::get,           Operation::fetch_add,
    Operation::compare_swap, Operation::put_immediate, Operation::send,
    Operation::send_tagged,  Operation::put_list,      Operation::get_list};

/// In bytes. With a sanitizer, 256 MiB would take half a minute a row.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr std::uint64_t kLargest = 16 << 20;
#else
inline constexpr std::uint64_t kLargest = 256 << 20;
#endif

/// In bytes. The last one is only for atomics, which have no other size.
inline constexpr std::array<std::uint64_t, 7> kSizes{0, 1, 4095, 65537, 4 << 20, kLargest, 8};
inline constexpr std::size_t kAtomicSize = 6;

inline constexpr std::array kPlaces{Place::threads, Place::processes, Place::nodes};

[[nodiscard]] std::string_view to_string(Operation operation) noexcept;
[[nodiscard]] std::string_view to_string(Place place) noexcept;

/// "put gaudi -> cuda, 65537 bytes, threads".
[[nodiscard]] std::string to_string(const Row& row);

[[nodiscard]] bool is_atomic(Operation operation) noexcept;

/// All rows. An atomic has one size, and its only source is the host, which gets the answer.
[[nodiscard]] std::vector<Row> all_rows();

/// A subset of all_rows() with every pair of values of two columns that all_rows() contains.
[[nodiscard]] std::vector<Row> pairwise_rows();

}  // namespace hbmwire::matrix
