// SPDX-License-Identifier: MIT
#include "bench/common/ucx.hpp"
#include "bench/endpoint/our_end.hpp"
#include "bench/endpoint/rows.hpp"
#include "bench/endpoint/two_processes.hpp"

/// Rows against UCX on the same NIC, in memory that UCX registers. UCX's two processes start anew
/// in each slice; ours sleep meanwhile.
namespace hbmwire::bench {
namespace {

unsigned iterations_of(const Effort& effort, unsigned usual) {
  return effort.quick ? usual / 50 : usual;
}

class UcxPutLatency final : public TwoProcesses<OurEnd, NoEnd, AnswerWords> {
 public:
  explicit UcxPutLatency(const Effort& effort)
      : TwoProcesses(Kind::private_pages, kWord),
        chunks_(effort.chunks * 5),  // as the row put-8 (kRoundsOfChunk)
        iterations_(iterations_of(effort, 20'000)) {}

  double ours() override {
    call(our_end(), std::uint64_t{chunks_} * kRoundsOfChunk);
    return word_ns(our_end(), chunks_);
  }

  double theirs() override {
    return ucx_perftest({"ucp_put_lat", iterations_, kTransport}).median_ns;
  }

 private:
  unsigned chunks_;
  unsigned iterations_;
};

class UcxPutRate final : public TwoProcesses<OurEnd, NoEnd, Sleep> {
 public:
  UcxPutRate(const Effort& effort, std::size_t bytes, unsigned iterations)
      : TwoProcesses(Kind::private_pages, bytes),
        bytes_(bytes),
        iterations_(iterations_of(effort, iterations)) {}

  double ours() override { return average_request_ns(our_end(), bytes_, iterations_); }

  double theirs() override {
    return ucx_perftest({"ucp_put_bw", iterations_, kTransport, bytes_}).average_ns;
  }

 private:
  std::size_t bytes_;
  unsigned iterations_;
};

}  // namespace

std::vector<Row> ucx_rows() {
  std::vector<Row> rows;
  rows.push_back({.name = "ucx-put-8", .ours = "8 B put until seen", .theirs = "UCX ucp_put_lat"});
  rows.back().make = [](const Effort& effort) { return std::make_unique<UcxPutLatency>(effort); };
  rows.push_back({.name = "ucx-put-rate", .ours = "8 B put, average", .theirs = "UCX ucp_put_bw"});
  rows.back().make = [](const Effort& effort) {
    return std::make_unique<UcxPutRate>(effort, kWord, 100'000);
  };
  for (Row& row : rows) {
    row.better = Better::lower;
    row.limit = kLatencyBound;
  }
  return rows;
}

}  // namespace hbmwire::bench
