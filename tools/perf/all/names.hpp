// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>

#include "tools/perf/all/matrix.hpp"

/// Ends and ranks in words, as they are: made printable by those who show them.
namespace hbmwire::tools::perf::all {

/// "n3 mlx5_0:1 gaudi": which end it is, for two runs.
[[nodiscard]] std::string end_name(const End& end);

/// "rank 3 (n3 mlx5_0:1, gaudi2 0000:33:00.0)": which end it is, for people.
[[nodiscard]] std::string end_text(const End& end);

/// "rank 3 (n3)".
[[nodiscard]] std::string rank_text(std::uint32_t rank, const std::string& host);

}  // namespace hbmwire::tools::perf::all
