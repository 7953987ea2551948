// SPDX-License-Identifier: MIT
#include "tools/common/nearest.hpp"

#include <algorithm>
#include <cstddef>

namespace hbmwire::tools {
namespace {

/// The number of letters to change, add, remove or swap with their neighbour (optimal string
/// alignment).
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::vector<std::size_t> row(b.size() + 1, i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + change});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    before_last = std::move(last);
    last = std::move(row);
  }
  return last[b.size()];
}

}  // namespace

std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& known) {
  constexpr std::size_t kShort = 6;    // letters, including dashes: "--card"
  constexpr std::size_t kTelling = 4;  // letters of a beginning
  const std::size_t most = word.size() > kShort ? 2 : 1;
  std::optional<std::string> best;
  std::size_t best_distance = most + 1;
  std::vector<std::string> begun;
  for (const auto& name : known) {
    if (name.size() >= kTelling && name.starts_with(word)) begun.push_back(name);
    // Changing one letter would turn any short option into any other.
    if (name.size() <= 2 || word.size() <= 2) continue;
    const std::size_t far = distance(word, name);
    if (far >= best_distance) continue;
    best = name;
    best_distance = far;
  }
  if (!best && begun.size() == 1 && word.size() >= kTelling) return begun.front();
  return best;
}

}  // namespace hbmwire::tools
