// SPDX-License-Identifier: MIT
#include <algorithm>
#include <vector>

#include "bench/common/by_nic.hpp"
#include "bench/common/program.hpp"
#include "bench/endpoint/two_processes.hpp"
#include "bench/movers/memory_end.hpp"

/// Rows of large puts by two NICs and by one. A program of its own, since NICs with a limited rate
/// belong to a fabric, and slow everything else that is measured there.
namespace hbmwire::bench {
namespace {

constexpr Holding kBoth{"emu0", MemoryType::host, "emu1"};
constexpr Holding kOne{"emu0", MemoryType::host};
constexpr unsigned kPuts = 3;

template <const Holding& kHeld>
struct End : MemoryEnd {
  explicit End(const Place& place) : MemoryEnd(place, kHeld) {}

  double median_ns() {
    std::vector<double> times;
    for (unsigned i = 0; i < kPuts; ++i) times.push_back(put_ns(Path::host));
    return median(std::move(times));
  }
};

class Rails final : public TwoProcesses<End<kBoth>, End<kOne>, Sleep> {
 public:
  Rails(const Effort& /*effort*/, std::shared_ptr<Peer> peer)
      : TwoProcesses(Kind::private_pages, kWord, std::move(peer)) {}

  double ours() override { return our_end().median_ns(); }

  double theirs() override { return their_end().median_ns(); }
};

std::vector<Row> rows() {
  Row row{.name = "rails", .ours = "16 MiB put by two NICs", .theirs = "the same by one"};
  row.bytes = kLarge;
  row.limit = 1.8;
  // Forks the peer now: TwoProcesses::forked() says why.
  row.make = [peer = Rails::forked(Kind::private_pages, kWord)](const Effort& effort) {
    return std::make_unique<Rails>(effort, peer);
  };
  return {row};
}

}  // namespace
}  // namespace hbmwire::bench

int main(int argc, char** argv) {
  hbmwire::bench::go_by_nic();
  return hbmwire::bench::run_program(
      argc, argv,
      "Large puts by two NICs, each limited by the emulator, against one. Ratios are medians of\n"
      "pairs of short slices, taken in turn while the machine was steady.",
      [] { return hbmwire::bench::rows(); });
}
