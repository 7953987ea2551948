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

/// Options that apply only to this side.
struct SideOptions {
  std::string nic;                    ///< "mlx5_0", "mlx5_0:2"; empty: the first NIC that fits
  std::optional<unsigned> gid_index;  ///< empty: the NIC's default
  bool by_endpoints = false;          ///< through the endpoint API, which chooses the GID itself
  MemoryType memory = MemoryType::host;
  MemoryOptions device;
  bool keeps_private = false;  ///< host memory is not allocated as `shared`
  std::string dmabuf;          ///< "yes", "no", "try"; empty: as in the settings
};

/// This side's hardware: NIC, memory, registration. Members are destroyed in reverse order.
struct MemorySide {
  Context context;
  Nic nic;
  std::shared_ptr<MemoryDomain> domain;
  Buffer buffer;
  Layout layout;
  Side description;  ///< for the result and the peer
  std::optional<unsigned> gid_index;

  [[nodiscard]] bool on_device() const noexcept {
    return domain->device().type != MemoryType::host;
  }

  /// The address at which the CPU can read host memory.
  [[nodiscard]] std::byte* host_address() const noexcept;
};

/// Opens only the NIC, to find out early whether it is usable.
Outcome<void> probe_nic(const SideOptions& options);

/// Opens everything. Sends the peer signs of life meanwhile, since opening a card can take long.
Outcome<MemorySide> open_memory_side(const SideOptions& options, const Layout& layout,
                                     Access access, Session& session);

}  // namespace hbmwire::tools::perf
