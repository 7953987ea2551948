// SPDX-License-Identifier: MIT
#include <string>

#include "bench/endpoint/our_end.hpp"
#include "bench/endpoint/rows.hpp"
#include "bench/endpoint/two_processes.hpp"

/// Rows that show where EndpointOptions::eager_bytes should lie: messages of one size that are sent
/// at once and copied, against messages that the receiver's NIC reads.
namespace hbmwire::bench {
namespace {

constexpr std::size_t kMostBytes = 128 << 10;

class EagerEnd : public OurEnd {
 public:
  explicit EagerEnd(const Place& place) : OurEnd(place, kMostBytes) {}
};

class RendezvousEnd : public OurEnd {
 public:
  explicit RendezvousEnd(const Place& place) : OurEnd(place, 0) {}
};

template <std::size_t kBytes>
class Threshold final : public TwoProcesses<EagerEnd, RendezvousEnd, TakeMessages<kBytes>> {
 public:
  explicit Threshold(const Effort& effort)
      : TwoProcesses<EagerEnd, RendezvousEnd, TakeMessages<kBytes>>(Kind::private_pages, kBytes),
        count_(effort.quick ? 2 * kMessages : 1000) {}

  double ours() override { return call_and_time(this->our_end()); }

  double theirs() override { return call_and_time(this->their_end()); }

 private:
  template <class End>
  double call_and_time(End& end) {
    this->call(end, count_);
    return stream_ns(end, kBytes, count_);
  }

  unsigned count_;
};

template <std::size_t kBytes>
Row threshold_row() {
  const std::string size = std::to_string(kBytes >> 10);
  Row row{
      .name = "eager-" + size + "k", .ours = size + " KiB messages, eager", .theirs = "rendezvous"};
  row.bytes = kBytes;
  row.make = [](const Effort& effort) { return std::make_unique<Threshold<kBytes>>(effort); };
  return row;
}

}  // namespace

std::vector<Row> threshold_rows() {
  return {threshold_row<1 << 10>(), threshold_row<2 << 10>(),  threshold_row<4 << 10>(),
          threshold_row<8 << 10>(), threshold_row<16 << 10>(), threshold_row<32 << 10>(),
          threshold_row<64 << 10>()};
}

}  // namespace hbmwire::bench
