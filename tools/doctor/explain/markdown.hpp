// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

/// The subset of Markdown that the manual's entries use, for a terminal: paragraphs, lists of one
/// level, code blocks, links, bold words and `code`.
namespace hbmwire::tools::doctor {

/// The width of rendered() text. Only longer words and lines of code exceed it.
inline constexpr std::size_t kTerminalColumns = 80;

struct Block {
  enum class Kind { paragraph, item, code };

  Kind kind = Kind::paragraph;
  std::string mark;  ///< the mark of a list item: "*", "1."
  std::string text;  ///< Markdown in one line; for code, the lines as they are
};

[[nodiscard]] std::vector<Block> blocks_of(std::string_view markdown);

/// Text of one line without the marks of Markdown. `code` keeps its backquotes, as in remedies. A
/// link becomes the path of its file in the tree, after its words if these differ from the path.
[[nodiscard]] std::string plain_text(std::string_view markdown);

/// The files and addresses to which the links lead: "docs/info.md".
[[nodiscard]] std::vector<std::string> link_targets(std::string_view markdown);

/// Renders blocks as indented lines. Wraps words; `code` of moderate length is one word, so that it
/// can be copied.
[[nodiscard]] std::string rendered(std::string_view markdown, std::size_t indent);

}  // namespace hbmwire::tools::doctor
