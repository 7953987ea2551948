// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "tools/stat/sample.hpp"

namespace hbmwire::tools::stats {

/// A sample in Prometheus' text format (version 0.0.4): docs/metrics.md has each metric.
[[nodiscard]] std::string prometheus_text(const Sample& sample);

}  // namespace hbmwire::tools::stats
