// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "hbmwire/buffer.hpp"
#include "hbmwire/context.hpp"
#include "hbmwire/memory_domain.hpp"
#include "hbmwire/nic.hpp"

#include "tools/common/failure.hpp"
#include "tools/common/memory_choice.hpp"
#include "tools/common/session.hpp"
#include "tools/perf/layout.hpp"
#include "tools/perf/result.hpp"

namespace hbmwire::tools::perf {

/// What a user decides for this side alone.
struct SideOptions {
  std::string nic;                    ///< "mlx5_0", "mlx5_0:2"; empty: the first that fits
  std::optional<unsigned> gid_index;  ///< empty: the NIC's
  bool by_endpoints = false;          ///< whose GID is the NIC's
  MemoryType memory = MemoryType::host;
  MemoryOptions device;
  bool keeps_private = false;  ///< host memory is not `shared`
  std::string dmabuf;          ///< "yes", "no", "try"; empty: as the settings have it
};

/// This side's hardware: NIC, memory, registration. Members go in reverse order.
struct MemorySide {
  Context context;
  Nic nic;
  std::shared_ptr<MemoryDomain> domain;
  Buffer buffer;
  Layout layout;
  Side description;  ///< for the result, and for the peer
  std::optional<unsigned> gid_index;

  [[nodiscard]] bool on_device() const noexcept {
    return domain->device().type != MemoryType::host;
  }

  /// Where the CPU can look at host memory.
  [[nodiscard]] std::byte* host_address() const noexcept;
};

/// Opens the NIC alone, to find out early that it can't be had.
Outcome<void> probe_nic(const SideOptions& options);

/// Opens it all; the peer is told meanwhile that this side lives, since a card can take long.
Outcome<MemorySide> open_memory_side(const SideOptions& options, const Layout& layout,
                                     Access access, Session& session);

}  // namespace hbmwire::tools::perf
