// SPDX-License-Identifier: MIT
#pragma once

#include "tools/common/output.hpp"
#include "tools/stat/sample.hpp"

namespace hbmwire::tools::stats {

/// The object of `hbmwire stat --json` as specified in docs/stat.md, without the members that all
/// commands have.
[[nodiscard]] Json to_json(const Sample& sample);

}  // namespace hbmwire::tools::stats
