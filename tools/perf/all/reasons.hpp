// SPDX-License-Identifier: MIT
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/perf/all/matrix.hpp"

namespace hbmwire::tools::perf::all {

/// Why an end or a pair may be slow: how it differs from the others of its run, and the doctor's
/// findings about it. Links are held against the median link, paths and distances against those
/// that more than half of the ends with the same kind of memory have. The run outlives this.
class Reasons {
 public:
  explicit Reasons(const MatrixRun& run);

  /// One sentence's worth, without a full stop; advice where no difference is known.
  [[nodiscard]] std::string of_end(std::size_t end) const;
  /// As of_end(), about both ends of the cell and the path of its transfers.
  [[nodiscard]] std::string of_pair(const Cell& cell) const;

 private:
  using Usual = std::map<std::string, std::string>;

  [[nodiscard]] std::vector<std::string> differences(std::size_t end,
                                                     const std::string& whose) const;

  const MatrixRun& run_;
  double median_link_ = 0;  ///< 0: no link is known
  Usual usual_path_;        ///< by memory
  Usual usual_distance_;
  std::string usual_transfer_;
};

}  // namespace hbmwire::tools::perf::all
