// SPDX-License-Identifier: MIT
#pragma once

#include "tools/common/output.hpp"
#include "tools/stat/sample.hpp"

namespace hbmwire::tools::stats {

/// The object of `hbmwire stat --json`, as docs/stat.md specifies it, without what all commands'
/// have.
[[nodiscard]] Json to_json(const Sample& sample);

}  // namespace hbmwire::tools::stats
