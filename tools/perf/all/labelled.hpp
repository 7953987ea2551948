// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

namespace hbmwire::tools::perf::all {

/// Adds " label         : text" as perf's closing lines are, with the text made printable and
/// wrapped into the columns behind the colon.
void add_labelled(std::vector<std::string>& lines, const std::string& label,
                  const std::string& text, unsigned columns);

}  // namespace hbmwire::tools::perf::all
