// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace hbmwire::detail {

/// Ranks in rising order as the subject of an error: "rank 3", "ranks 0, 2-5, 9". Where not all fit
/// into Error::subject: "ranks 0, 2-5 and 17 more". Throws std::bad_alloc.
[[nodiscard]] std::string rank_text(std::span<const std::uint32_t> ranks);

}  // namespace hbmwire::detail
