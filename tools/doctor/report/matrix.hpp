// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "tools/doctor/pairs/pair.hpp"

namespace hbmwire::tools::doctor {

/// The pairs as a table of memories and NICs, in lines of at most `columns` columns, followed by
/// the meanings of its words and marks. Eight NICs fit into 80 columns; more go into a second table
/// below. Empty without pairs.
[[nodiscard]] std::vector<std::string> matrix_lines(const Pairs& pairs, unsigned columns,
                                                    bool coloured);

/// The two parts: the table, and the meanings.
[[nodiscard]] std::vector<std::string> table_lines(const Pairs& pairs, unsigned columns,
                                                   bool coloured);
[[nodiscard]] std::vector<std::string> legend_lines(const Pairs& pairs);

/// The text of a cell, at most 8 columns: "12 98%" (12 GB/s, and the share of what is possible), or
/// an outcome without a figure: "staged", "FAILED".
[[nodiscard]] std::string cell_text(const Pair& pair);

}  // namespace hbmwire::tools::doctor
