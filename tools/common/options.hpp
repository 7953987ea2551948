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

/// The options that server and client share.
struct CommonOptions {
  std::uint16_t port = 20000;               ///< the seeds' port
  std::string nic;                          ///< `-d`; empty: the first NIC that fits
  std::uint64_t size_bytes = 4194304;       ///< `-s`, the seeds' size
  std::optional<MemoryType> memory;         ///< `-m`; empty: auto
  MemoryOptions device;                     ///< --card, --owner
  std::optional<std::uint32_t> iterations;  ///< `-n`; empty: 3, or the number that the peer wants
  std::chrono::seconds patience{30};        ///< --timeout: the longest time without progress of the
                                            ///< peer
  bool json = false;
  bool quiet = false;

  [[nodiscard]] Output::Mode output_mode() const noexcept {
    if (json) return Output::Mode::json;
    return quiet ? Output::Mode::quiet : Output::Mode::text;
  }
};

inline constexpr std::uint32_t kDefaultIterations = 3;

/// Adds these options to `app`, which must not outlive `options`.
void add_common_options(CLI::App& app, CommonOptions& options);

/// A sentence if options contradict each other or one would be ignored; empty otherwise.
[[nodiscard]] std::optional<std::string> contradiction_in(const CommonOptions& options);

}  // namespace hbmwire::tools
