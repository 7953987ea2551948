// SPDX-License-Identifier: MIT
#include "tools/doctor/report/matrix.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "hbmwire/path.hpp"

#include "tools/common/colours.hpp"
#include "tools/common/lines.hpp"

namespace hbmwire::tools::doctor {
namespace {

constexpr std::size_t kCellColumns = 8;

void add_once(std::vector<std::string>& names, const std::string& name) {
  if (std::ranges::find(names, name) == names.end()) names.push_back(name);
}

/// The order of columns: NICs as listed. Without NICs: host, the device itself, other devices,
/// other processes.
std::size_t place_of(const std::string& by) {
  if (by == "host") return 0;
  if (by == "itself") return 1;
  return by == "ipc" ? 3 : by == "tcp" ? 4 : 2;
}

const char* colour_of(const Pair& pair) {
  switch (pair.outcome) {
    case PairOutcome::slow:
    case PairOutcome::staged:
    case PairOutcome::untried:
      return kYellow;
    case PairOutcome::refused:
    case PairOutcome::failed:
      return kRed;
    default:
      return kGreen;
  }
}

std::string figures(const Pair& pair) {
  const double rate = pair.bytes_per_second() / 1e9;
  const std::string_view mark = pair.outcome == PairOutcome::slow          ? "!"
                                : pair.outcome == PairOutcome::peer_memory ? "p"
                                                                           : "";
  // The bounds are those at which rounding would add a digit.
  const int decimals = rate < 0.095 ? 2 : rate < 9.95 ? 1 : 0;
  std::string share;
  // The limit may itself be a measurement, which the rate can exceed a little.
  if (pair.possible_bytes_per_second > 0)
    share = fmt::format(" {:.0f}%", std::min(100.0, std::floor(pair.share() * 100)));
  const std::string text = fmt::format("{:.{}f}{}{}", rate, decimals, share, mark);
  if (text.size() <= kCellColumns) return text;
  // Shows ".03 10%!" rather than "0 10%!".
  return rate < 0.995 ? text.substr(1) : fmt::format("{:.0f}{}{}", rate, share, mark);
}

/// The heads of columns: the names, or numbers if a name is too long.
class Heads {
 public:
  explicit Heads(const std::vector<std::string>& names)
      : numbered_(std::ranges::any_of(
            names, [](const std::string& name) { return name.size() > kCellColumns; })) {}

  [[nodiscard]] std::string text(const std::string& name, std::size_t index) const {
    return numbered_ ? fmt::format("#{}", index + 1) : name;
  }

  [[nodiscard]] bool numbered() const noexcept { return numbered_; }

 private:
  bool numbered_;
};

const Pair* find(const Pairs& pairs, const std::string& memory, const std::string& by) {
  const auto found = std::ranges::find_if(
      pairs.pairs, [&](const Pair& pair) { return pair.memory == memory && pair.by == by; });
  return found == pairs.pairs.end() ? nullptr : &*found;
}

std::string cell(const Pair* pair, bool coloured) {
  const std::string text = pair == nullptr ? "-" : cell_text(*pair);
  const std::string padding(kCellColumns - std::min(kCellColumns, text.size()) + 1, ' ');
  if (!coloured || pair == nullptr) return padding + text;
  return padding + colour_of(*pair) + text + kPlain;
}

bool any(const Pairs& pairs, PairOutcome outcome) {
  return std::ranges::find(pairs.pairs, outcome, &Pair::outcome) != pairs.pairs.end();
}

}  // namespace

std::vector<std::string> legend_lines(const Pairs& pairs) {
  std::vector<std::string> lines;
  const bool by_nic = pairs.nics != 0;
  lines.emplace_back(
      by_nic ? "GB/s and share of what is possible; every byte compared in the memory itself"
             : "GB/s; without a NIC: by an engine, between processes (ipc), by TCP");
  if (pairs.emulated && by_nic)
    lines.emplace_back(
        "emulated NICs move bytes by the CPU: their figures tell nothing of hardware");
  // A slow pair also has a path.
  const auto zero_copy = to_string(Path::zero_copy);
  if (std::ranges::any_of(pairs.pairs,
                          [&](const Pair& pair) { return pair.path == zero_copy && pair.works(); }))
    lines.emplace_back("device memory: zero-copy");
  if (any(pairs, PairOutcome::peer_memory))
    lines.emplace_back("p       device memory by its address (peer memory)");
  if (any(pairs, PairOutcome::slow))
    lines.push_back(fmt::format("!       slow: less than {:.0f} % of what is possible",
                                slow_share(pairs.emulated) * 100));
  if (any(pairs, PairOutcome::staged))
    lines.emplace_back("staged  the NIC refuses the memory: bytes go through host memory");
  return lines;
}

std::string cell_text(const Pair& pair) {
  switch (pair.outcome) {
    case PairOutcome::staged:
      return "staged";
    case PairOutcome::refused:
      return "refused";
    case PairOutcome::failed:
      return "FAILED";
    case PairOutcome::untried:
      return pair.error && pair.error->code == "busy" ? "busy" : "untried";
    default:
      return figures(pair);
  }
}

std::vector<std::string> table_lines(const Pairs& pairs, unsigned columns, bool coloured) {
  std::vector<std::string> lines;
  if (pairs.pairs.empty()) return lines;
  std::vector<std::string> memories;
  std::vector<std::string> names;
  for (const Pair& pair : pairs.pairs) {
    add_once(memories, pair.memory);
    add_once(names, pair.by);
  }
  if (pairs.nics == 0) std::ranges::stable_sort(names, {}, place_of);
  const std::size_t label = std::ranges::max(memories, {}, &std::string::size).size();
  const std::size_t room = columns > label ? columns - label : 0;
  const std::size_t at_once = std::max<std::size_t>(room / (kCellColumns + 1), 1);
  const Heads heads(names);
  for (std::size_t first = 0; first < names.size(); first += at_once) {
    const std::size_t last = std::min(first + at_once, names.size());
    std::string head(label, ' ');
    for (std::size_t i = first; i < last; ++i)
      head += fmt::format(" {:>{}}", heads.text(names[i], i), kCellColumns);
    lines.push_back(head);
    for (const std::string& memory : memories) {
      std::string line = fmt::format("{:<{}}", memory, label);
      for (std::size_t i = first; i < last; ++i)
        line += cell(find(pairs, memory, names[i]), coloured);
      lines.push_back(line);
    }
  }
  if (heads.numbered()) {
    for (std::size_t i = 0; i < names.size(); ++i)
      lines.push_back(fmt::format("#{:<7}{}", i + 1, names[i]));
  }
  return lines;
}

std::vector<std::string> matrix_lines(const Pairs& pairs, unsigned columns, bool coloured) {
  std::vector<std::string> lines = table_lines(pairs, columns, coloured);
  if (!lines.empty()) append(lines, legend_lines(pairs));
  return lines;
}

}  // namespace hbmwire::tools::doctor
