// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

/// The little Markdown of the manual's entries, for a terminal: paragraphs, lists of one level,
/// code blocks, links, bold words and `code`.
namespace hbmwire::tools::doctor {

/// Lines of rendered() have at most so many columns, but for words and lines of code that are
/// longer.
inline constexpr std::size_t kTerminalColumns = 80;

struct Block {
  enum class Kind { paragraph, item, code };

  Kind kind = Kind::paragraph;
  std::string mark;  ///< of an item: "*", "1."
  std::string text;  ///< Markdown of one line; of code the lines as they are
};

[[nodiscard]] std::vector<Block> blocks_of(std::string_view markdown);

/// Text of one line without Markdown's marks. `code` keeps its backquotes, as remedies have them. A
/// link becomes the path of its file in the tree, behind its words where these say something else.
[[nodiscard]] std::string plain_text(std::string_view markdown);

/// The files and addresses to which the links lead: "docs/info.md".
[[nodiscard]] std::vector<std::string> link_targets(std::string_view markdown);

/// Blocks as lines, each one indented. Words are wrapped; `code` of moderate length is one word, so
/// that it can be copied.
[[nodiscard]] std::string rendered(std::string_view markdown, std::size_t indent);

}  // namespace hbmwire::tools::doctor
