// SPDX-License-Identifier: MIT
#include "group/ranks.hpp"

#include "hbmwire/error.hpp"

namespace hbmwire::detail {

std::string rank_text(std::span<const std::uint32_t> ranks) {
  // The longest text that still has room for the rest in Error::subject.
  constexpr std::size_t kMost = sizeof(Error::subject) - sizeof " and 4096 more";
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    std::string part = i == 0 ? "" : ", ";
    part += std::to_string(ranks[i]);
    if (end - i == 2) part += ", " + std::to_string(ranks[end - 1]);
    if (end - i > 2) part += "-" + std::to_string(ranks[end - 1]);
    if (text.size() + part.size() > kMost)
      return text + " and " + std::to_string(ranks.size() - i) + " more";
    text += part;
    i = end;
  }
  return text;
}

}  // namespace hbmwire::detail
