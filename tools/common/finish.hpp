// SPDX-License-Identifier: MIT
#pragma once

#include "tools/common/failure.hpp"
#include "tools/common/output.hpp"

namespace hbmwire::tools {

/// Adds the message to a JSON object as "error", and the name of its hint, if any, as "hint".
void add_error(Json& object, const Failure& failure);

/// Ends a tool: prints the error, if any, and the object of --json made from `summary`. Returns the
/// exit code.
int finish(Output& output, const Failure& failure, Json summary);
int finish(Output& output, int exit_code, Json summary);

}  // namespace hbmwire::tools
