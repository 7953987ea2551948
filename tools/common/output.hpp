// SPDX-License-Identifier: MIT
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "tools/common/failure.hpp"
#include <nlohmann/json.hpp>

namespace hbmwire::tools {

using Json = nlohmann::ordered_json;

/// Prints `text` as it is. written_stdout() tells later if that failed.
void write_stdout(std::string_view text);

/// Whether all that was printed has been written. Errors: exit code 1.
Outcome<void> written_stdout();

/// The output of a tool. Lines leave at once, also into a pipe, so that a reader sees each step
/// when it happens.
class Output {
 public:
  enum class Mode { text, quiet, json };

  Output(std::string program, Mode mode) : program_(std::move(program)), mode_(mode) {}

  /// A line for people, on standard output; nowhere when they asked for JSON or for silence.
  template <class... Arguments>
  void line(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    if (mode_ != Mode::text) return;
    write_stdout(fmt::format(format, std::forward<Arguments>(arguments)...) + "\n");
  }

  /// A line that scripts wait for: with JSON it goes to standard error.
  void notice(const std::string& text);

  /// "hbmwire server: text" on standard error.
  void error(const std::string& text);

  /// The one object of --json; nothing without it.
  void json(const Json& object);

  /// One of many of --json, in a line of its own; nothing without it.
  void json_line(const Json& object);

  /// Before long work: whether all could be written so far, and more could be now. A full disk
  /// shows only when it is written to. Errors: exit code 1.
  [[nodiscard]] Outcome<void> check() const;

  [[nodiscard]] const std::string& program() const noexcept { return program_; }

  [[nodiscard]] bool shows_progress() const noexcept { return mode_ == Mode::text; }

 private:
  std::string program_;
  Mode mode_;
};

/// Whether `hbmwire emulate` runs this process, as HBMWIRE_EMULATED says. The first line and the
/// JSON of each tool tell it.
bool is_emulated();

/// Whether a descriptor is a terminal that has colours, and can clear a line: not TERM=dumb.
bool is_capable_terminal(int fd);

/// Whether text there may have colours: a capable terminal, and NO_COLOR is not set
/// (https://no-color.org).
bool has_colours(int fd);

/// The headline of the seeds: title and underline.
void print_headline(Output& output, const std::string& title);

}  // namespace hbmwire::tools
