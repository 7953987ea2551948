// SPDX-License-Identifier: MIT
#pragma once

#include "tools/common/failure.hpp"
#include "tools/common/output.hpp"

namespace hbmwire::tools {

/// Puts the sentence into a JSON object as "error", and the name of its hint, if it has one, as
/// "hint".
void add_error(Json& object, const Failure& failure);

/// A tool's last words and its exit code: the error if there is one, and the object of --json made
/// of `summary`.
int finish(Output& output, const Failure& failure, Json summary);
int finish(Output& output, int exit_code, Json summary);

}  // namespace hbmwire::tools
