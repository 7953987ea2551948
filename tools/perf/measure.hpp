// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>

#include "tools/common/interrupt.hpp"
#include "tools/perf/options.hpp"
#include "tools/wire/control_listener.hpp"

namespace hbmwire::tools::perf {

/// Runs one test as client or server, and prints all of its output. A server accepts its client at
/// `listener` if that is given; otherwise it listens at the port of its options and prints that it
/// waits. Returns the exit code.
int measure(const Options& options, const std::string& program, const Interrupt& interrupt,
            std::optional<wire::ControlListener> listener);

}  // namespace hbmwire::tools::perf
