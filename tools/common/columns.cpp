// SPDX-License-Identifier: MIT
#include "tools/common/columns.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace hbmwire::tools {

Columns::Columns(std::vector<std::string> names, std::set<std::size_t> left)
    : left_(std::move(left)), widths_(names.size()) {
  add(std::move(names));
}

void Columns::add(std::vector<std::string> cells) {
  for (std::size_t i = 0; i < cells.size(); ++i) widths_[i] = std::max(widths_[i], cells[i].size());
  rows_.push_back(std::move(cells));
}

std::vector<std::string> Columns::lines() const {
  std::vector<std::string> lines;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i != 0) line += ' ';
      line += left_.contains(i) ? fmt::format("{:<{}}", row[i], widths_[i])
                                : fmt::format("{:>{}}", row[i], widths_[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace hbmwire::tools
