// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace hbmwire::tools {

/// What a progress bar shows.
struct ProgressState {
  std::string label;
  std::uint64_t done_bytes = 0;
  std::uint64_t total_bytes = 0;
  std::uint64_t nanoseconds = 0;
  std::string detail = {};  ///< shown instead of the rate, where what counts is not bytes
};

/// Of standard error's terminal; 80 where it does not tell.
unsigned terminal_columns();

/// One line of at most `columns` columns, without a line end: label, bar, percentage, rate. The bar
/// goes first when there is no room, then the rate; labels in ASCII.
std::string render_progress(const ProgressState& state, unsigned columns);

/// A bar on standard error while it is a terminal, else nothing. Drawn at most ten times a second.
class Progress {
 public:
  Progress(std::string label, std::uint64_t total_bytes, bool wanted);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  Progress(Progress&&) = delete;
  Progress& operator=(Progress&&) = delete;

  void advance(std::uint64_t done_bytes);

  /// So many of `total` steps are done, and this is going on now. Drawn at once.
  void step(std::uint64_t done, std::string what);

  /// Takes the line away, so that another one can be printed.
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
