// SPDX-License-Identifier: MIT
#include "tools/doctor/remote/side_by_side.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "tools/common/colours.hpp"
#include "tools/common/lines.hpp"

namespace hbmwire::tools::doctor {
namespace {

constexpr std::size_t kVerdictColumns = 7;  // "unknown"
constexpr std::size_t kGap = 2;
constexpr std::size_t kShortestPeer = 8;

int badness(Verdict verdict) {
  switch (verdict) {
    case Verdict::good:
      return 0;
    case Verdict::unknown:
      return 1;
    case Verdict::slow:
      return 2;
    case Verdict::bad:
      break;
  }
  return 3;
}

std::map<std::string, Verdict> worst_by_check(std::span<const Finding> findings) {
  std::map<std::string, Verdict> worst;
  for (const Finding& finding : findings) {
    const auto [entry, is_new] = worst.try_emplace(finding.check, finding.verdict);
    if (!is_new && badness(finding.verdict) > badness(entry->second))
      entry->second = finding.verdict;
  }
  return worst;
}

std::optional<Verdict> verdict_in(const std::map<std::string, Verdict>& worst,
                                  const std::string& check) {
  const auto found = worst.find(check);
  return found == worst.end() ? std::nullopt : std::optional(found->second);
}

bool is_good_or_silent(const std::optional<Verdict>& verdict) {
  return !verdict || *verdict == Verdict::good;
}

bool has_row(const CheckAtBothEnds& check) {
  return !is_good_or_silent(check.here) || !is_good_or_silent(check.there);
}

std::string verdict_cell(const std::optional<Verdict>& verdict, bool coloured) {
  if (!verdict) return "-";
  const std::string word(to_string(*verdict));
  if (!coloured) return word;
  const char* const colour = *verdict == Verdict::good  ? kGreen
                             : *verdict == Verdict::bad ? kRed
                                                        : kYellow;
  return colour + word + kPlain;
}

std::string padding_of(const std::optional<Verdict>& verdict) {
  const std::size_t size = verdict ? to_string(*verdict).size() : 1;
  return std::string(kVerdictColumns - size + kGap, ' ');
}

void add_rows(std::vector<std::string>& lines, const std::vector<CheckAtBothEnds>& checks,
              std::string_view peer, const ReportStyle& style) {
  std::size_t label = 0;
  for (const CheckAtBothEnds& check : checks) {
    if (has_row(check)) label = std::max(label, check.check.size());
  }
  if (label == 0) return;
  const std::size_t used = label + kGap + kVerdictColumns + kGap;
  const std::size_t room = std::max<std::size_t>(style.columns, used + kShortestPeer) - used;
  lines.push_back(fmt::format("{:<{}}{:<{}}{}", "", label + kGap, "here", kVerdictColumns + kGap,
                              shown(peer, room)));
  for (const CheckAtBothEnds& check : checks) {
    if (!has_row(check)) continue;
    lines.push_back(fmt::format("{:<{}}{}{}{}", check.check, label + kGap,
                                verdict_cell(check.here, style.coloured), padding_of(check.here),
                                verdict_cell(check.there, style.coloured)));
  }
}

/// Adds the checks that are good at one end and do not apply at the other.
void add_one_sided(std::vector<std::string>& lines, const std::vector<CheckAtBothEnds>& checks,
                   bool good_here, unsigned columns) {
  std::vector<std::string_view> names;
  for (const CheckAtBothEnds& check : checks) {
    if (!has_row(check) && check.here.has_value() == good_here &&
        check.there.has_value() != good_here)
      names.push_back(check.check);
  }
  if (names.empty()) return;
  add_wrapped(lines,
              fmt::format("good {}, nothing to judge {}: {}", good_here ? "here" : "there",
                          good_here ? "there" : "here", fmt::join(names, ", ")),
              /*indent=*/0, columns);
}

void add_entry(std::vector<std::string>& lines, std::size_t number, const Difference& difference,
               unsigned columns) {
  constexpr std::size_t kIndent = 4;
  std::vector<std::string> own;
  std::string text =
      fmt::format("{}: {} here, {} there", difference.what, difference.here, difference.there);
  if (!difference.source.empty()) text += fmt::format(" ({})", difference.source);
  add_wrapped(own, text, kIndent, columns);
  if (!difference.remedy.empty()) add_wrapped(own, "-> " + difference.remedy, kIndent, columns);
  own.front().replace(0, kIndent, fmt::format("{:>2}. ", number));
  lines.insert(lines.end(), own.begin(), own.end());
}

void add_part(std::vector<std::string>& lines, const std::vector<Difference>& differences,
              Difference::Matter matter, unsigned columns) {
  std::size_t number = 0;
  for (const Difference& difference : differences) {
    if (difference.matter != matter) continue;
    if (number == 0) {
      lines.emplace_back();
      lines.emplace_back(matter == Difference::Matter::fault
                             ? "Differences that can make transfers fail, or slow:"
                             : "Other differences:");
    }
    add_entry(lines, ++number, difference, columns);
  }
}

}  // namespace

std::vector<CheckAtBothEnds> side_by_side(std::span<const Finding> here,
                                          std::span<const Finding> there) {
  const auto ours = worst_by_check(here);
  const auto theirs = worst_by_check(there);
  std::vector<CheckAtBothEnds> checks;
  for (const Check& check : all_checks()) {
    const std::string name(check.name);
    const auto our = verdict_in(ours, name);
    const auto their = verdict_in(theirs, name);
    if (our || their) checks.push_back({.check = name, .here = our, .there = their});
  }
  return checks;
}

std::vector<std::string> side_by_side_lines(const std::vector<CheckAtBothEnds>& checks,
                                            std::string_view peer, const ReportStyle& style) {
  std::vector<std::string> lines;
  if (checks.empty()) return lines;
  add_rows(lines, checks, peer, style);
  add_one_sided(lines, checks, /*good_here=*/true, style.columns);
  add_one_sided(lines, checks, /*good_here=*/false, style.columns);
  const auto good = std::ranges::count_if(checks, [](const CheckAtBothEnds& check) {
    return check.here == Verdict::good && check.there == Verdict::good;
  });
  lines.push_back(good == 1 ? "1 check is good at both ends"
                            : fmt::format("{} checks are good at both ends", good));
  return lines;
}

std::vector<std::string> difference_lines(const std::vector<Difference>& differences,
                                          const ReportStyle& style) {
  std::vector<std::string> lines;
  add_part(lines, differences, Difference::Matter::fault, style.columns);
  add_part(lines, differences, Difference::Matter::note, style.columns);
  return lines;
}

Json to_json(const std::vector<CheckAtBothEnds>& checks) {
  const auto word = [](const std::optional<Verdict>& verdict) {
    return verdict ? Json(to_string(*verdict)) : Json(nullptr);
  };
  Json list = Json::array();
  for (const CheckAtBothEnds& check : checks)
    list.push_back(
        {{"check", check.check}, {"here", word(check.here)}, {"there", word(check.there)}});
  return list;
}

}  // namespace hbmwire::tools::doctor
