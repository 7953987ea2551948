// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace hbmwire::tools {

/// The values that a progress bar shows.
struct ProgressState {
  std::string label;
  std::uint64_t done_bytes = 0;
  std::uint64_t total_bytes = 0;
  std::uint64_t nanoseconds = 0;
  std::string detail = {};  ///< shown instead of the rate if progress is not measured in bytes
};

/// The columns of standard error's terminal; 80 if unknown.
unsigned terminal_columns();

/// One line of at most `columns` columns, without a newline: label, bar, percentage, rate. If there
/// is too little room, the bar is left out first, then the rate. Labels must be ASCII.
std::string render_progress(const ProgressState& state, unsigned columns);

/// A bar on standard error if that is a terminal, else nothing. Drawn at most ten times a second.
class Progress {
 public:
  Progress(std::string label, std::uint64_t total_bytes, bool wanted);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  Progress(Progress&&) = delete;
  Progress& operator=(Progress&&) = delete;

  /// Reports that so many bytes are done.
  void advance(std::uint64_t done_bytes);

  /// Reports that `done` of `total` steps are done, and the current work. Drawn at once.
  void step(std::uint64_t done, std::string what);

  /// Clears the line, so that another one can be printed.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  void draw(Clock::time_point now);

  ProgressState state_;
  bool shown_ = false;
  bool drawn_ = false;
  Clock::time_point start_;
  Clock::time_point next_;
};

}  // namespace hbmwire::tools
