// SPDX-License-Identifier: MIT
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "tools/common/failure.hpp"
#include <nlohmann/json.hpp>

namespace hbmwire::tools {

using Json = nlohmann::ordered_json;

/// Prints `text` unchanged. A failure is remembered for written_stdout().
void write_stdout(std::string_view text);

/// Whether all output so far was written. Errors: exit code 1.
Outcome<void> written_stdout();

/// The output of a tool. Each line is flushed, even into a pipe, so that a reader sees each step
/// when it happens.
class Output {
 public:
  enum class Mode { text, quiet, json };

  Output(std::string program, Mode mode) : program_(std::move(program)), mode_(mode) {}

  /// Prints a line for people on standard output, unless the user asked for JSON or silence.
  template <class... Arguments>
  void line(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    if (mode_ != Mode::text) return;
    write_stdout(fmt::format(format, std::forward<Arguments>(arguments)...) + "\n");
  }

  /// Prints a line that scripts wait for. With --json it goes to standard error.
  void notice(const std::string& text);

  /// Prints "hbmwire server: text" on standard error.
  void error(const std::string& text);

  /// Prints the only object of --json; without --json, nothing.
  void json(const Json& object);

  /// Prints one of several objects of --json on a line of its own; without --json, nothing.
  void json_line(const Json& object);

  /// To be called before long work: checks that all output so far was written, and that more can
  /// be. A full disk shows only when something is written. Errors: exit code 1.
  [[nodiscard]] Outcome<void> check() const;

  [[nodiscard]] const std::string& program() const noexcept { return program_; }

  [[nodiscard]] bool shows_progress() const noexcept { return mode_ == Mode::text; }

 private:
  std::string program_;
  Mode mode_;
};

/// True below `hbmwire emulate`, which sets an environment variable. The first line of output and
/// the JSON mention it.
bool is_emulated();

/// Whether a descriptor is a terminal that supports colours and clearing a line (not TERM=dumb).
bool is_capable_terminal(int fd);

/// Prints the headline of the seeds: a title and its underline.
void print_headline(Output& output, const std::string& title);

}  // namespace hbmwire::tools
