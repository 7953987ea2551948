// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hbmwire/error.hpp"

#include "tools/doctor/explain/manual.hpp"

namespace hbmwire::tools::doctor {

/// The entry of a hint in the manual, which may lack Cause, Steps and See also:
///     ### no_rdma_device
///
///     No RDMA NIC was found.
///
///     * Symptom: ...
///     * Cause: ...
///     * Remedy: ...
///     * Steps:
///       1. ...
///     * See also: [info.md](info.md)
struct HintEntry {
  struct Part {
    std::string label;     ///< "Cause"
    std::string markdown;  ///< without the list's indentation
  };

  Hint hint = Hint::none;
  std::string chapter;  ///< the heading above: "No RDMA NIC, or not this one"
  std::string summary;  ///< one short sentence
  std::vector<Part> parts;

  /// Empty if the entry has no such part.
  [[nodiscard]] std::string_view part(std::string_view label) const noexcept;
};

/// The entries of a manual, in its order. Leaves out headings that do not name a hint.
[[nodiscard]] std::vector<HintEntry> hint_entries(std::span<const ManualPart> manual);

}  // namespace hbmwire::tools::doctor
