// SPDX-License-Identifier: MIT
#include "bench/endpoint/put_contests.hpp"
#include "bench/endpoint/raw_end.hpp"
#include "bench/endpoint/rows.hpp"

/// Rows against a loop on verbs that does the same, in memory like a card's.
namespace hbmwire::bench {
namespace {

/// Our end for request_ns(): it learns of the end of puts from Worker::next_done(), not from
/// handles.
struct ToldEnd {
  OurEnd& end;

  void run(std::size_t bytes, unsigned count) const { end.run_told(bytes, count); }

  void finish() const { end.finish_told(); }
};

class ToldRate final : public TwoProcesses<OurEnd, RawEnd, Sleep> {
 public:
  explicit ToldRate(unsigned chunks)
      : TwoProcesses<OurEnd, RawEnd, Sleep>(Kind::shared, kWord, nullptr), chunks_(chunks) {}

  double ours() override {
    ToldEnd told{our_end()};
    return request_ns(told, kWord, chunks_);
  }

  double theirs() override { return request_ns(their_end(), kWord, chunks_); }

 private:
  unsigned chunks_;
};

auto rate_of(std::size_t bytes) {
  return [bytes](const Effort& effort) {
    return std::make_unique<PutRate<RawEnd>>(Kind::shared, bytes, effort.chunks);
  };
}

Row bandwidth_row(const char* name, const char* ours, std::size_t bytes, double limit) {
  Row row{.name = name, .ours = ours, .theirs = "raw verbs", .limit = limit, .bytes = bytes};
  row.renewed = true;
  row.make = rate_of(bytes);
  return row;
}

}  // namespace

std::vector<Row> raw_rows() {
  std::vector<Row> rows;
  Row latency{.name = "put-8", .ours = "8 B put until seen", .theirs = "raw verbs"};
  latency.better = Better::lower;
  latency.limit = 1.20;
  latency.renewed = true;
  latency.make = [](const Effort& effort) {
    // Short chunks, so more of them: kRoundsOfChunk.
    return std::make_unique<PutLatency<RawEnd>>(Kind::shared, effort.chunks * 5);
  };
  rows.push_back(latency);
  Row cost{.name = "put-8-cost", .ours = "8 B put, 64 under way", .theirs = "raw verbs"};
  cost.better = Better::lower;
  cost.difference = true;
  cost.limit = 25;
  cost.renewed = true;
  cost.make = rate_of(kWord);
  rows.push_back(cost);
  Row told{.name = "done-8-cost", .ours = "the same, by next_done()", .theirs = "raw verbs"};
  told.better = Better::lower;
  told.difference = true;
  told.renewed = true;
  told.make = [](const Effort& effort) { return std::make_unique<ToldRate>(effort.chunks); };
  rows.push_back(told);
  rows.push_back(bandwidth_row("put-64k", "64 KiB put, 64 under way", k64k, 0.96));
  rows.push_back(bandwidth_row("put-1m", "1 MiB put, 64 under way", k1m, 0.98));
  return rows;
}

}  // namespace hbmwire::bench
