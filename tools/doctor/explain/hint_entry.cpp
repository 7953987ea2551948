// SPDX-License-Identifier: MIT
#include "tools/doctor/explain/hint_entry.hpp"

#include <algorithm>
#include <cctype>

#include "tools/doctor/explain/markdown.hpp"

namespace hbmwire::tools::doctor {
namespace {

constexpr std::string_view kItem = "* ";

/// Extracts "See also" from "* See also: [info.md](info.md)": letters and blanks up to a colon.
std::string_view label_of(std::string_view line) {
  if (!line.starts_with(kItem)) return {};
  line.remove_prefix(kItem.size());
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return {};
  const std::string_view label = line.substr(0, colon);
  const auto may_be_in_it = [](char c) {
    return c == ' ' || std::isalpha(static_cast<unsigned char>(c)) != 0;
  };
  return std::ranges::all_of(label, may_be_in_it) ? label : std::string_view{};
}

/// Removes the indentation that blocks of a list item have.
std::string_view dedented(std::string_view line) {
  const std::size_t blanks = std::min(line.find_first_not_of(' '), line.size());
  return line.substr(std::min(blanks, kItem.size()));
}

HintEntry entry_of(Hint hint, std::string_view chapter, std::string_view text) {
  HintEntry entry{.hint = hint, .chapter = std::string(chapter), .summary = {}, .parts = {}};
  std::string before;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (const std::string_view label = label_of(line); !label.empty()) {
      entry.parts.push_back({.label = std::string(label), .markdown = {}});
      line.remove_prefix(kItem.size() + label.size() + 1);
      line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    } else {
      line = dedented(line);
    }
    std::string& place = entry.parts.empty() ? before : entry.parts.back().markdown;
    place += std::string(line) + "\n";
  }
  const auto blocks = blocks_of(before);
  if (!blocks.empty()) entry.summary = plain_text(blocks.front().text);
  return entry;
}

}  // namespace

std::string_view HintEntry::part(std::string_view label) const noexcept {
  const auto found = std::ranges::find(parts, label, &Part::label);
  return found == parts.end() ? std::string_view{} : std::string_view(found->markdown);
}

std::vector<HintEntry> hint_entries(std::span<const ManualPart> manual) {
  std::vector<HintEntry> entries;
  std::string_view chapter;
  for (const ManualPart& part : manual) {
    if (part.mark == "##") chapter = part.title;
    const auto hint = hint_from_name(part.title);
    if (part.mark == "###" && hint) entries.push_back(entry_of(*hint, chapter, part.text));
  }
  return entries;
}

}  // namespace hbmwire::tools::doctor
