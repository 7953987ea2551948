// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace hbmwire::tools {

/// Adds `text` in lines of at most `columns` columns, each after `indent` blanks. Words that are
/// longer than a line stay whole, because users copy commands from here.
void add_wrapped(std::vector<std::string>& lines, const std::string& text, std::size_t indent,
                 unsigned columns);

/// Appends lines to others.
void append(std::vector<std::string>& lines, const std::vector<std::string>& more);

}  // namespace hbmwire::tools
