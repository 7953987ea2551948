// SPDX-License-Identifier: MIT
#pragma once

#include <fmt/format.h>

#include <string>

#include <nlohmann/json.hpp>

namespace hbmwire::tools {

using Json = nlohmann::ordered_json;

/// What a tool says. Lines leave at once, also into a pipe: whoever reads along sees each step when
/// it happens.
class Output {
 public:
  enum class Mode { text, quiet, json };

  Output(std::string program, Mode mode) : program_(std::move(program)), mode_(mode) {}

  /// A line for people, on standard output; nowhere when they asked for JSON or for silence.
  template <class... Arguments>
  void line(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    if (mode_ == Mode::text) print(fmt::format(format, std::forward<Arguments>(arguments)...));
  }

  /// A line that scripts wait for: with JSON it goes to standard error.
  void notice(const std::string& text);

  /// "hbmwire server: text" on standard error.
  void error(const std::string& text);

  /// The one object of --json; nothing without it.
  void json(const Json& object);

  [[nodiscard]] bool shows_progress() const noexcept { return mode_ == Mode::text; }

 private:
  static void print(const std::string& text);

  std::string program_;
  Mode mode_;
};

/// True below `hbmwire emulate`, which says so in the environment: the first line and the JSON tell
/// it.
bool is_emulated();

/// The headline of the seeds: title and underline.
void print_headline(Output& output, const std::string& title);

}  // namespace hbmwire::tools
