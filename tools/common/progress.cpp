// SPDX-License-Identifier: MIT
#include "tools/common/progress.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "tools/common/output.hpp"
#include "tools/common/text.hpp"

namespace hbmwire::tools {
namespace {

constexpr auto kBetweenDraws = std::chrono::milliseconds(100);
constexpr unsigned kSmallestBar = 6;  // columns, with brackets; a smaller bar shows nothing
constexpr unsigned kWidestBar = 50;

std::string bar(double share, std::size_t columns) {
  const std::size_t inner = columns - 2;
  const auto filled = static_cast<std::size_t>(share * static_cast<double>(inner));
  return fmt::format("[{}{}]", std::string(filled, '#'), std::string(inner - filled, '.'));
}

}  // namespace

unsigned terminal_columns() {
  constexpr unsigned kUsual = 80;
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUsual;
  return size.ws_col;
}

std::string render_progress(const ProgressState& state, unsigned columns) {
  const double share = state.total_bytes == 0
                           ? 1.0
                           : std::min(1.0, static_cast<double>(state.done_bytes) /
                                               static_cast<double>(state.total_bytes));
  // Rounded down, so that 100% appears only at the end.
  const std::string percent = fmt::format("{:3d}%", static_cast<int>(share * 100));
  const std::string rate =
      "  " + (state.detail.empty() ? rate_text(state.done_bytes, state.nanoseconds) : state.detail);
  std::string line = state.label + " ";
  const std::size_t fixed = line.size() + 1 + percent.size() + rate.size();
  if (columns >= fixed + kSmallestBar) {
    line += bar(share, std::min<std::size_t>(columns - fixed, kWidestBar)) + " ";
  }
  line += percent;
  if (line.size() + rate.size() <= columns) line += rate;
  return line.substr(0, columns);
}

Progress::Progress(std::string label, std::uint64_t total_bytes, bool wanted)
    : state_{.label = std::move(label), .total_bytes = total_bytes},
      shown_(wanted && is_capable_terminal(STDERR_FILENO)),
      start_(Clock::now()),
      next_(start_) {}

Progress::~Progress() {
  if (!shown_ || !drawn_) return;
  draw(Clock::now());
  std::fputc('\n', stderr);
}

void Progress::advance(std::uint64_t done_bytes) {
  state_.done_bytes = done_bytes;
  if (!shown_) return;
  const auto now = Clock::now();
  if (now < next_) return;
  next_ = now + kBetweenDraws;
  draw(now);
}

void Progress::step(std::uint64_t done, std::string what) {
  state_.done_bytes = done;
  state_.detail = std::move(what);
  if (shown_) draw(Clock::now());
}

void Progress::clear() {
  if (!drawn_) return;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
  drawn_ = false;
}

void Progress::draw(Clock::time_point now) {
  using std::chrono::nanoseconds;
  state_.nanoseconds = static_cast<std::uint64_t>(nanoseconds(now - start_).count());
  // The last column stays empty, because some terminals wrap when it is written. One write avoids
  // flicker.
  const std::string line = "\r" + render_progress(state_, terminal_columns() - 1) + "\x1b[K";
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
  drawn_ = true;
}

}  // namespace hbmwire::tools
