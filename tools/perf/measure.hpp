// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>

#include "tools/common/interrupt.hpp"
#include "tools/perf/options.hpp"
#include "tools/wire/control_listener.hpp"

namespace hbmwire::tools::perf {

/// One test as client or server, with all that is printed. A server waits at `listener` if there is
/// one, and says nothing of it, else at the port of its options. Returns the exit code.
int measure(const Options& options, const std::string& program, const Interrupt& interrupt,
            std::optional<wire::ControlListener> listener);

}  // namespace hbmwire::tools::perf
