// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

namespace hbmwire::tools {

/// A table with columns as wide as their contents, one space between them, and no space at the end
/// of a line.
class Columns {
 public:
  /// Columns in `left` are aligned to the left, all others, such as numbers, to the right.
  Columns(std::vector<std::string> names, std::set<std::size_t> left);

  /// Adds a row with a cell for each column.
  void add(std::vector<std::string> cells);

  /// The line of names, and a line for each row.
  [[nodiscard]] std::vector<std::string> lines() const;

 private:
  std::set<std::size_t> left_;
  std::vector<std::size_t> widths_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace hbmwire::tools
