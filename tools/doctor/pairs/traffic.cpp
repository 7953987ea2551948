// SPDX-License-Identifier: MIT
#include "tools/doctor/pairs/traffic.hpp"

#include <algorithm>
#include <vector>

#include "tools/common/stopwatch.hpp"
#include "tools/doctor/pairs/timing.hpp"

namespace hbmwire::tools::doctor {
namespace {

constexpr std::uint64_t kPieces = kWindowBytes / kPieceBytes;
constexpr std::uint64_t kMostTimed = (std::uint64_t{64} << 20) / kPieceBytes;
constexpr std::size_t kMostLatencies = 1000;

}  // namespace

Result<Traffic> Traffic::in_loopback(const Nic& nic, const Region& region, const LinkOptions& link,
                                     std::chrono::milliseconds step, int cancel_fd) {
  const Connection::Options options{.send_depth = kDepth, .receive_depth = 1, .link = link};
  HBMWIRE_TRY_ASSIGN(Connection near, Connection::create(nic, options));
  HBMWIRE_TRY_ASSIGN(Connection far, Connection::create(nic, options));
  HBMWIRE_TRY(near.connect(far.local()));
  HBMWIRE_TRY(far.connect(near.local()));
  Traffic traffic(std::move(near), region, region.remote(), step, cancel_fd);
  traffic.loop_ = std::move(far);
  return traffic;
}

Result<void> Traffic::post(bool write, std::uint64_t piece) {
  const std::uint64_t at = piece % kPieces * kPieceBytes;
  if (write) {
    HBMWIRE_TRY_ASSIGN(const auto to, far_.slice(kWindowBytes + at, kPieceBytes));
    return near_.post_write(piece, region_.slice(at, kPieceBytes), to);
  }
  HBMWIRE_TRY_ASSIGN(const auto from, far_.slice(at, kPieceBytes));
  return near_.post_read(piece, region_.slice(kWindowBytes + at, kPieceBytes), from);
}

Result<void> Traffic::await_one() {
  HBMWIRE_TRY(near_.wait({step_, cancel_fd_}));
  return {};
}

Result<void> Traffic::move_window(bool write) {
  static_assert(kPieces <= kDepth);
  for (std::uint64_t i = 0; i < kPieces; ++i) HBMWIRE_TRY(post(write, i));
  for (std::uint64_t i = 0; i < kPieces; ++i) HBMWIRE_TRY(await_one());
  return {};
}

Result<double> Traffic::bytes_per_second(bool write, std::chrono::milliseconds time) {
  const Deadline end = Deadline::after(time);
  const Stopwatch stopwatch;
  std::uint64_t posted = 0;
  std::uint64_t done = 0;
  // Moves at least one whole window, because its bytes are compared afterwards.
  while (done < posted || posted < kPieces) {
    const bool goes_on = posted < kPieces || (posted < kMostTimed && !end.passed());
    if (goes_on && posted - done < kDepth) {
      HBMWIRE_TRY(post(write, posted));
      ++posted;
      continue;
    }
    HBMWIRE_TRY(await_one());
    ++done;
  }
  const auto nanoseconds = std::max<std::uint64_t>(stopwatch.nanoseconds(), 1);
  return static_cast<double>(done * kPieceBytes) * 1e9 / static_cast<double>(nanoseconds);
}

Result<double> Traffic::latency_ns(std::chrono::milliseconds time) {
  constexpr std::uint64_t kWordBytes = 8;
  const Deadline end = Deadline::after(time);
  HBMWIRE_TRY_ASSIGN(const auto to, far_.slice(kWindowBytes, kWordBytes));
  std::vector<double> times;
  times.reserve(kMostLatencies);
  do {
    const Stopwatch stopwatch;
    HBMWIRE_TRY(near_.post_write(0, region_.slice(0, kWordBytes), to));
    HBMWIRE_TRY(await_one());
    times.push_back(static_cast<double>(stopwatch.nanoseconds()));
  } while (times.size() < kMostLatencies && !end.passed());
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::ranges::nth_element(times, middle);
  return *middle;
}

/// Takes the better of two rounds for each figure, since other work of the machine may disturb one
/// of them.
Result<Figures> Traffic::measure(std::chrono::milliseconds time) {
  const auto each = time / 5;  // two rounds of writes and of reads, and the latency
  Figures figures;
  for (int round = 0; round < 2; ++round) {
    HBMWIRE_TRY_ASSIGN(const double written, bytes_per_second(/*write=*/true, each));
    HBMWIRE_TRY_ASSIGN(const double read, bytes_per_second(/*write=*/false, each));
    figures.write_bytes_per_second = std::max(figures.write_bytes_per_second, written);
    figures.read_bytes_per_second = std::max(figures.read_bytes_per_second, read);
  }
  HBMWIRE_TRY_ASSIGN(figures.latency_ns, latency_ns(each));
  return figures;
}

}  // namespace hbmwire::tools::doctor
