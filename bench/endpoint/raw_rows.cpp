// SPDX-License-Identifier: MIT
#include "bench/endpoint/our_end.hpp"
#include "bench/endpoint/raw_end.hpp"
#include "bench/endpoint/rows.hpp"
#include "bench/endpoint/two_processes.hpp"

/// Against a loop on verbs that does the same, in memory as a card's.
namespace hbmwire::bench {
namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);
constexpr std::size_t k64k = 64 << 10;
constexpr std::size_t k1m = 1 << 20;

class PutLatency final : public TwoProcesses<OurEnd, RawEnd, AnswerWords> {
 public:
  explicit PutLatency(const Effort& effort)
      : TwoProcesses(Kind::shared, kWord), chunks_(effort.chunks * 5) {}

  double ours() override { return of(our_end()); }

  double theirs() override { return of(their_end()); }

 private:
  template <class End>
  double of(End& end) {
    call(end, std::uint64_t{chunks_} * kRoundsOfChunk);
    return word_ns(end, chunks_);
  }

  unsigned chunks_;
};

class PutRate final : public TwoProcesses<OurEnd, RawEnd, Sleep> {
 public:
  PutRate(const Effort& effort, std::size_t bytes)
      : TwoProcesses(Kind::shared, bytes), bytes_(bytes), chunks_(effort.chunks) {}

  double ours() override { return request_ns(our_end(), bytes_, chunks_); }

  double theirs() override { return request_ns(their_end(), bytes_, chunks_); }

 private:
  std::size_t bytes_;
  unsigned chunks_;
};

constexpr unsigned kRenewed = 3;

Row bandwidth_row(const char* name, const char* ours, std::size_t bytes) {
  Row row{.name = name, .ours = ours, .theirs = "raw verbs", .limit = 0.99, .bytes = bytes};
  row.renewed = kRenewed;
  row.make = [bytes](const Effort& effort) { return std::make_unique<PutRate>(effort, bytes); };
  return row;
}

}  // namespace

std::vector<Row> raw_rows() {
  std::vector<Row> rows;
  Row latency{.name = "put-8", .ours = "8 B put until seen", .theirs = "raw verbs"};
  latency.better = Better::lower;
  latency.limit = 1.10;
  latency.aim = 1.03;
  latency.renewed = kRenewed;
  latency.make = [](const Effort& effort) { return std::make_unique<PutLatency>(effort); };
  rows.push_back(latency);
  Row cost{.name = "put-8-cost", .ours = "8 B put, 64 under way", .theirs = "raw verbs"};
  cost.better = Better::lower;
  cost.difference = true;
  cost.limit = 15;
  cost.aim = 5;
  cost.renewed = kRenewed;
  cost.make = [](const Effort& effort) { return std::make_unique<PutRate>(effort, kWord); };
  rows.push_back(cost);
  rows.push_back(bandwidth_row("put-64k", "64 KiB put, 64 under way", k64k));
  rows.push_back(bandwidth_row("put-1m", "1 MiB put, 64 under way", k1m));
  return rows;
}

}  // namespace hbmwire::bench
