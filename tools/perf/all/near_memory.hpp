// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "hbmwire/context.hpp"

#include "tools/common/failure.hpp"
#include "tools/common/memory_choice.hpp"
#include "tools/perf/all/matrix.hpp"

namespace hbmwire::tools::perf::all {

/// One NIC with one memory, before either is opened.
struct FoundEnd {
  End end;  ///< `rank`, `host` and `path` are not known yet
  MemoryType type = MemoryType::host;
  std::string pci_address;  ///< of the device; empty for host memory
};

/// Each accelerator with the NIC that is nearest to it, and each NIC that has none with host
/// memory, in the NICs' order. If `selection` names memories, only those, and host memory with
/// every NIC if it is one of them. Opens no device. Errors: no NIC has a usable port, or no
/// hardware fits `selection`; the failure's exit code is kExitUnavailable.
Outcome<std::vector<FoundEnd>> find_ends(const Selection& selection);

}  // namespace hbmwire::tools::perf::all
