// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "tools/stat/sample.hpp"

namespace hbmwire::tools::stats {

/// A sample in the text format of Prometheus (version 0.0.4). docs/metrics.md describes each
/// metric.
[[nodiscard]] std::string prometheus_text(const Sample& sample);

}  // namespace hbmwire::tools::stats
