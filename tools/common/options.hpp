// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "hbmwire/memory.hpp"

#include "tools/common/output.hpp"
#include <CLI/CLI.hpp>

namespace hbmwire::tools {

/// What server and client have in common.
struct CommonOptions {
  std::uint16_t port = 20000;               ///< the seeds' port
  std::string nic;                          ///< `-d`; empty: the first that fits
  std::uint64_t size_bytes = 4194304;       ///< `-s`, the seeds' size
  std::optional<MemoryType> memory;         ///< `-m`; empty: auto
  MemoryOptions device;                     ///< --card, --owner
  std::optional<std::uint32_t> iterations;  ///< `-n`; not given: 3, or what the peer wants
  std::chrono::seconds patience{30};        ///< --timeout: how long the peer may make no progress
  bool json = false;
  bool quiet = false;

  [[nodiscard]] Output::Mode output_mode() const noexcept {
    if (json) return Output::Mode::json;
    return quiet ? Output::Mode::quiet : Output::Mode::text;
  }
};

inline constexpr std::uint32_t kDefaultIterations = 3;

/// Adds them to `app`, which must not outlive `options`.
void add_common_options(CLI::App& app, CommonOptions& options);

/// Which of them contradict each other, or one that would be ignored: a sentence. Nothing: none.
[[nodiscard]] std::optional<std::string> contradiction_in(const CommonOptions& options);

}  // namespace hbmwire::tools
