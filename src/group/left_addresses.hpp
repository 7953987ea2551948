// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace hbmwire::detail {

/// The longest text that left_text() gives, and that addresses_in() takes.
constexpr std::size_t kMaxLeftBytes = 16384;

/// The bytes with which each text of left_text() begins, and no other program's: "hbmwire group".
constexpr std::size_t kLeftNameBytes = 13;

/// The text that rank 0 leaves at a place: a line that names its kind, a line for each address, and
/// a last line by which a reader knows that it has all.
[[nodiscard]] std::string left_text(const std::vector<std::string>& addresses);

/// The addresses in a text of left_text(); empty if `text` is another one, or a part of one. The
/// text may come from anyone who can write at the place, so each address has to look like one.
[[nodiscard]] std::vector<std::string> addresses_in(std::string_view text);

}  // namespace hbmwire::detail
