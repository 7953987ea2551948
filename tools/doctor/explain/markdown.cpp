// SPDX-License-Identifier: MIT
#include "tools/doctor/explain/markdown.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>

namespace hbmwire::tools::doctor {
namespace {

// The manual's links are relative to this folder.
constexpr std::string_view kManualFolder = "docs";

std::string_view without_blanks(std::string_view text) {
  const std::size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

/// Returns "1." for "1. text", and "*" for "* text".
std::string_view mark_of(std::string_view line) {
  const std::string_view mark = line.substr(0, line.find(' '));
  if (mark.size() == line.size()) return {};
  if (mark == "*") return mark;
  const bool number = mark.size() > 1 && mark.back() == '.' &&
                      mark.find_first_not_of("0123456789") == mark.size() - 1;
  return number ? mark : std::string_view{};
}

struct Link {
  std::string words;
  std::string target;    ///< a path in the tree, or an address
  std::size_t size = 0;  ///< length of its Markdown in bytes
};

/// Turns "info.md#options" into "docs/info.md".
std::string target_of(std::string_view url) {
  if (url.find("://") != std::string_view::npos) return std::string(url);
  if (url.starts_with('#')) url = {};
  const std::filesystem::path file(url.substr(0, url.find('#')));
  return (std::filesystem::path(kManualFolder) / (file.empty() ? "troubleshooting.md" : file))
      .lexically_normal()
      .string();
}

/// The link at the beginning of `text`.
std::optional<Link> link_at(std::string_view text) {
  if (!text.starts_with('[')) return std::nullopt;
  const std::size_t middle = text.find("](");
  const std::size_t end = text.find(')', middle);
  if (middle == std::string_view::npos || end == std::string_view::npos) return std::nullopt;
  const std::string_view words = text.substr(1, middle - 1);
  if (words.find_first_of("[]") != std::string_view::npos) return std::nullopt;
  return Link{.words = plain_text(words),
              .target = target_of(text.substr(middle + 2, end - middle - 2)),
              .size = end + 1};
}

/// The length of the `code` at the beginning of `text`; 0 if there is none.
std::size_t code_at(std::string_view text) {
  const std::size_t end = text.starts_with('`') ? text.find('`', 1) : std::string_view::npos;
  return end == std::string_view::npos ? 0 : end + 1;
}

bool is_escape(std::string_view text) {
  constexpr std::string_view kEscaped = "*_[]\\`<>#";
  return text.size() > 1 && text[0] == '\\' && kEscaped.find(text[1]) != std::string_view::npos;
}

/// The columns of UTF-8 text: bytes that continue a character take none.
std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U; }));
}

/// Splits into words; short `code` is one word.
std::vector<std::string> words_in(std::string_view text) {
  constexpr std::size_t kLongestCode = 50;
  std::vector<std::string> words;
  bool begins = true;
  while (!text.empty()) {
    std::size_t size = 1;
    if (const std::size_t code = code_at(text); code != 0 && code <= kLongestCode) size = code;
    const std::string_view piece = text.substr(0, size);
    text.remove_prefix(size);
    if (piece == " ") {
      begins = true;
      continue;
    }
    if (begins) words.emplace_back();
    words.back() += piece;
    begins = false;
  }
  return words;
}

/// The first line begins with `first`, the others with as many blanks.
std::string wrapped(std::string_view text, const std::string& first) {
  std::string lines = first;
  std::size_t column = columns_of(first);
  const std::size_t margin = column;
  for (const std::string& word : words_in(text)) {
    const std::size_t width = columns_of(word);
    if (column > margin && column + 1 + width > kTerminalColumns) {
      lines += "\n" + std::string(margin, ' ');
      column = margin;
    }
    if (column > margin) {
      lines += ' ';
      ++column;
    }
    lines += word;
    column += width;
  }
  return lines + "\n";
}

std::string indented(std::string_view code, std::size_t indent) {
  std::string lines;
  while (!code.empty()) {
    const std::size_t end = std::min(code.find('\n'), code.size());
    lines += std::string(indent, ' ') + std::string(code.substr(0, end)) + "\n";
    code.remove_prefix(std::min(end + 1, code.size()));
  }
  return lines;
}

}  // namespace

std::vector<Block> blocks_of(std::string_view markdown) {
  constexpr std::string_view kCodeIndent = "    ";
  using enum Block::Kind;
  std::vector<Block> blocks;
  bool open = false;  // the next line may continue the last block
  while (!markdown.empty()) {
    const std::size_t end = std::min(markdown.find('\n'), markdown.size());
    const std::string_view line = markdown.substr(0, end);
    markdown.remove_prefix(std::min(end + 1, markdown.size()));
    const std::string_view text = without_blanks(line);
    const bool in_code = open && blocks.back().kind == code;
    if (text.empty()) {
      open = false;
    } else if (in_code || (!open && line.starts_with(kCodeIndent))) {
      if (!in_code) blocks.push_back({.kind = code, .mark = {}, .text = {}});
      blocks.back().text +=
          std::string(line.substr(std::min(kCodeIndent.size(), line.size()))) + "\n";
      open = true;
    } else if (const std::string_view mark = mark_of(line); !mark.empty()) {
      blocks.push_back({.kind = item,
                        .mark = std::string(mark),
                        .text = std::string(without_blanks(line.substr(mark.size())))});
      open = true;
    } else if (open) {
      blocks.back().text += " " + std::string(text);
    } else {
      blocks.push_back({.kind = paragraph, .mark = {}, .text = std::string(text)});
      open = true;
    }
  }
  return blocks;
}

std::string plain_text(std::string_view markdown) {
  std::string text;
  while (!markdown.empty()) {
    std::size_t size = 1;
    if (const std::size_t code = code_at(markdown); code != 0) {
      size = code;
      text += markdown.substr(0, size);
    } else if (const auto link = link_at(markdown)) {
      size = link->size;
      const bool says_file = link->target.ends_with(link->words);
      text += says_file ? link->target : link->words + " (" + link->target + ")";
    } else if (markdown.starts_with("**")) {
      size = 2;
    } else if (is_escape(markdown)) {
      size = 2;
      text += markdown[1];
    } else {
      text += markdown.front();
    }
    markdown.remove_prefix(size);
  }
  return text;
}

std::vector<std::string> link_targets(std::string_view markdown) {
  std::vector<std::string> targets;
  while (!markdown.empty()) {
    std::size_t size = std::max<std::size_t>(code_at(markdown), 1);
    if (const auto link = link_at(markdown)) {
      targets.push_back(link->target);
      size = link->size;
    }
    markdown.remove_prefix(size);
  }
  return targets;
}

std::string rendered(std::string_view markdown, std::size_t indent) {
  const std::string margin(indent, ' ');
  std::string lines;
  bool was_item = false;
  for (const Block& block : blocks_of(markdown)) {
    const bool is_item = block.kind == Block::Kind::item;
    if (!lines.empty() && !(was_item && is_item)) lines += '\n';
    was_item = is_item;
    if (block.kind == Block::Kind::code) {
      lines += indented(block.text, indent + 4);
    } else {
      lines += wrapped(plain_text(block.text), is_item ? margin + block.mark + " " : margin);
    }
  }
  return lines;
}

}  // namespace hbmwire::tools::doctor
