// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

#include "hbmwire/buffer.hpp"
#include "hbmwire/context.hpp"
#include "hbmwire/memory_domain.hpp"
#include "hbmwire/nic.hpp"

#include "tools/common/failure.hpp"
#include "tools/common/options.hpp"
#include "tools/common/pieces.hpp"

namespace hbmwire::tools {

/// This side's hardware, opened once: memory, NIC, and the registered buffer. Members are destroyed
/// in reverse order.
struct LocalSide {
  Context context;
  std::shared_ptr<MemoryDomain> domain;
  Nic nic;
  Buffer buffer;
  Layout layout;

  /// A preferred type of memory that was not used, and the reason.
  struct NotUsed {
    MemoryType type = MemoryType::host;
    std::string reason;
  };

  std::vector<NotUsed> not_used;

  [[nodiscard]] const DeviceInfo& device() const noexcept { return domain->device(); }

  [[nodiscard]] bool in_device() const noexcept { return device().type != MemoryType::host; }

  /// "Gaudi", "CUDA", "ROCm" or "host".
  [[nodiscard]] std::string_view brand() const noexcept;

  /// The seeds' name for the place in a line about a copy: "HPU", "GPU" or "RAM".
  [[nodiscard]] std::string_view place() const noexcept {
    if (!in_device()) return "RAM";
    return device().type == MemoryType::gaudi ? "HPU" : "GPU";
  }

  /// "gaudi2 0000:33:00.0 (SynapseAI)" or "host"; the peer shows it.
  [[nodiscard]] std::string memory_text() const;
};

/// Opens everything, and prints each step. `gaudi` never falls back to host memory; `auto` may, and
/// prints the reason.
Outcome<LocalSide> open_local_side(const CommonOptions& options, Output& output);

/// The object for --json.
Json to_json(const LocalSide& side);

}  // namespace hbmwire::tools
