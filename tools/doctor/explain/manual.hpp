// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <string_view>

/// docs/troubleshooting.md, as it was when the program was built.
namespace hbmwire::tools::doctor {

/// A heading and the text below it, up to the next heading.
struct ManualPart {
  std::string_view mark;   ///< "##" for a chapter, "###" for an entry, "" for the text before the
                           ///< first heading
  std::string_view title;  ///< for an entry about a hint, the hint's name
  std::string_view text;   ///< Markdown
};

/// The whole manual. embed_manual.cmake generates its definition.
[[nodiscard]] std::span<const ManualPart> troubleshooting_manual() noexcept;

}  // namespace hbmwire::tools::doctor
