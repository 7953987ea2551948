// SPDX-License-Identifier: MIT
#include "tools/common/output.hpp"

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace hbmwire::tools {

void Output::print(const std::string& text) {
  const std::string line = text + "\n";
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fflush(stdout);
}

void Output::notice(const std::string& text) {
  if (mode_ == Mode::json) fmt::print(stderr, "{}\n", text);
  if (mode_ == Mode::text) print(text);
}

void Output::error(const std::string& text) { fmt::print(stderr, "{}: {}\n", program_, text); }

void Output::json(const Json& object) {
  // Names of files may hold any byte; JSON is UTF-8.
  if (mode_ == Mode::json) print(object.dump(2, ' ', false, Json::error_handler_t::replace));
}

bool is_emulated() {
  // Read before any thread exists.
  const char* value = std::getenv("HBMWIRE_EMULATED");  // NOLINT(concurrency-mt-unsafe)
  return value != nullptr && std::string_view(value) == "1";
}

void print_headline(Output& output, const std::string& title) {
  const std::string line = is_emulated() ? title + " (emulated hardware)" : title;
  output.line("{}", line);
  output.line("{}", std::string(line.size(), '='));
}

}  // namespace hbmwire::tools
