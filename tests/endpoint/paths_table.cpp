// SPDX-License-Identifier: MIT
#include "paths_table.hpp"

#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string_view>

namespace hbmwire::paths {

namespace {

constexpr std::string_view kHead = "| this end";
constexpr std::size_t kColumns = 7;

/// The texts between bars, without surrounding blanks and backquotes.
std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream in(line.substr(1));
  for (std::string cell; std::getline(in, cell, '|');) {
    const auto first = cell.find_first_not_of(" `");
    const auto last = cell.find_last_not_of(" `");
    cells.push_back(first == std::string::npos ? "" : cell.substr(first, last - first + 1));
  }
  return cells;
}

bool fits(const std::string& pattern, const std::string& value) {
  return pattern == "any" || pattern == value || (pattern == "dma-buf" && value == "two") ||
         (pattern == "one node" && value != "nodes") ||
         (pattern == "one process" && value == "process") ||
         (pattern == "processes" && value == "node") || (pattern == "host" && value == "shared") ||
         (pattern == "engine" && value == "GPU") ||
         (pattern == "device" && (value == "engine" || value == "GPU" || value == "imported"));
}

bool fits(const End& pattern, const End& end, bool same_engine = false) {
  const bool memory =
      pattern.memory == "its engine's" ? same_engine : fits(pattern.memory, end.memory);
  return memory && fits(pattern.nic, end.nic);
}

}  // namespace

std::vector<Row> read_table(const std::string& file) {
  std::ifstream in(file);
  std::vector<Row> rows;
  bool within = false;
  for (std::string line; std::getline(in, line);) {
    if (within && !line.starts_with('|')) break;
    if (within && !line.starts_with("|---")) {
      const auto cells = cells_of(line);
      if (cells.size() != kColumns) throw std::runtime_error("not seven columns: " + line);
      rows.push_back({.which = {.here = {cells[0], cells[1]},
                                .there = {cells[2], cells[3]},
                                .place = cells[4]},
                      .path = cells[5],
                      .required = cells[6]});
    }
    within = within || line.starts_with(kHead);
  }
  if (rows.empty()) throw std::runtime_error("no table in " + file);
  return rows;
}

const Row& row_of(const std::vector<Row>& table, const Case& which) {
  for (const Row& row : table) {
    if (fits(row.which.here, which.here) && fits(row.which.there, which.there, which.same_engine) &&
        fits(row.which.place, which.place))
      return row;
  }
  throw std::runtime_error("the table has no row for this");
}

}  // namespace hbmwire::paths
