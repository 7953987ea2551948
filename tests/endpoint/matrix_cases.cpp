// SPDX-License-Identifier: MIT
#include "matrix_cases.hpp"

namespace hbmwire::matrix {

namespace {

// More values than any column has.
constexpr std::size_t kMostValues = 16;
constexpr std::size_t kPairs = kColumns * kColumns * kMostValues * kMostValues;

/// A number for a pair of values from two columns.
constexpr std::size_t pair_of(std::size_t a, std::size_t i, std::size_t b, std::size_t j) noexcept {
  return ((a * kColumns + b) * kMostValues + i) * kMostValues + j;
}

using Pairs = std::array<std::size_t, kColumns*(kColumns - 1) / 2>;

Pairs pairs_of(const Row& row) noexcept {
  Pairs pairs{};
  std::size_t count = 0;
  for (std::size_t a = 0; a < kColumns; ++a) {
    for (std::size_t b = a + 1; b < kColumns; ++b) pairs[count++] = pair_of(a, row[a], b, row[b]);
  }
  return pairs;
}

bool can_be(const Row& row) noexcept {
  const bool atomic = is_atomic(kOperations[row[operation]]);
  if (atomic != (row[size] == kAtomicSize)) return false;
  return !atomic || kMemoryTypes[row[source]] == MemoryType::host;
}

}  // namespace

bool is_atomic(Operation operation) noexcept {
  return operation == Operation::fetch_add || operation == Operation::compare_swap;
}

std::vector<Row> all_rows() {
  const Row counts{kOperations.size(), kMemoryTypes.size(), kMemoryTypes.size(), kSizes.size(),
                   kPlaces.size()};
  std::vector<Row> rows;
  Row row{};
  for (;;) {
    if (can_be(row)) rows.push_back(row);
    std::size_t column = kColumns;
    while (column != 0 && ++row[column - 1] == counts[column - 1]) row[--column] = 0;
    if (column == 0) return rows;
  }
}

std::vector<Row> pairwise_rows() {
  const std::vector<Row> all = all_rows();
  std::vector<bool> missing(kPairs);
  for (const Row& row : all) {
    for (const std::size_t pair : pairs_of(row)) missing[pair] = true;
  }
  std::vector<Row> rows;
  for (;;) {
    // Takes the first of the best rows, so that the choice is the same everywhere.
    const Row* best = nullptr;
    std::size_t most = 0;
    for (const Row& row : all) {
      std::size_t brings = 0;
      for (const std::size_t pair : pairs_of(row)) brings += missing[pair] ? 1U : 0U;
      if (brings > most) {
        best = &row;
        most = brings;
      }
    }
    if (best == nullptr) return rows;
    for (const std::size_t pair : pairs_of(*best)) missing[pair] = false;
    rows.push_back(*best);
  }
}

std::string_view to_string(Operation operation) noexcept {
  switch (operation) {
    case Operation::put:
      return "put";
    case Operation::get:
      return "get";
    case Operation::fetch_add:
      return "fetch_add";
    case Operation::compare_swap:
      return "compare_swap";
    case Operation::put_immediate:
      return "put with immediate";
    case Operation::send:
      return "send";
    case Operation::send_tagged:
      return "tagged send";
    case Operation::put_list:
      return "put of a list";
    case Operation::get_list:
      return "get of a list";
  }
  return "?";
}

std::string_view to_string(Place place) noexcept {
  switch (place) {
    case Place::threads:
      return "threads";
    case Place::processes:
      return "processes";
    case Place::nodes:
      return "nodes";
  }
  return "?";
}

std::string to_string(const Row& row) {
  std::string text(to_string(kOperations[row[operation]]));
  text += " ";
  text += hbmwire::to_string(kMemoryTypes[row[source]]);
  text += " -> ";
  text += hbmwire::to_string(kMemoryTypes[row[target]]);
  text += ", " + std::to_string(kSizes[row[size]]) + " bytes, ";
  text += to_string(kPlaces[row[place]]);
  return text;
}

}  // namespace hbmwire::matrix
