// SPDX-License-Identifier: MIT
#pragma once

#include "hbmwire/trace.hpp"

namespace hbmwire {

/// What HBMWIRE_TRACE and HBMWIRE_TRACE_BYTES say; no file: no trace is wanted. They are not in
/// Settings, whose members programs were compiled with. Errors: as settings_from_environment().
[[nodiscard]] Result<TraceOptions> trace_settings();

}  // namespace hbmwire
