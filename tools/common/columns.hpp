// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

namespace hbmwire::tools {

/// A table whose columns are as wide as their contents, with a space between them and none at the
/// end of a line.
class Columns {
 public:
  /// `left`: these columns begin at the left, all others end at the right, as numbers do.
  Columns(std::vector<std::string> names, std::set<std::size_t> left);

  void add(std::vector<std::string> cells);

  /// The names, and a line for each row.
  [[nodiscard]] std::vector<std::string> lines() const;

 private:
  std::set<std::size_t> left_;
  std::vector<std::size_t> widths_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace hbmwire::tools
