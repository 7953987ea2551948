// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <string_view>

/// docs/troubleshooting.md, as it was when the program was built.
namespace hbmwire::tools::doctor {

/// A heading and the text below it, up to the next heading.
struct ManualPart {
  std::string_view mark;   ///< "##" of a chapter, "###" of an entry; "" of the text before all
  std::string_view title;  ///< of an entry about a hint the hint's name
  std::string_view text;   ///< Markdown
};

/// The whole manual. Its definition is made by embed_manual.cmake.
[[nodiscard]] std::span<const ManualPart> troubleshooting_manual() noexcept;

}  // namespace hbmwire::tools::doctor
