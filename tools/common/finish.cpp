// SPDX-License-Identifier: MIT
#include "tools/common/finish.hpp"

namespace hbmwire::tools {

void add_error(Json& object, const Failure& failure) {
  object["error"] = failure.text;
  if (failure.hint != Hint::none) object["hint"] = to_string(failure.hint);
}

int finish(Output& output, const Failure& failure, Json summary) {
  output.error(failure.text);
  add_error(summary, failure);
  return finish(output, failure.exit_code, std::move(summary));
}

int finish(Output& output, int exit_code, Json summary) {
  summary["emulated"] = is_emulated();
  summary["exit_code"] = exit_code;
  output.json(summary);
  return exit_code;
}

}  // namespace hbmwire::tools
