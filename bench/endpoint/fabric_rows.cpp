// SPDX-License-Identifier: MIT
#include "bench/endpoint/fabric_end.hpp"
#include "bench/endpoint/our_end.hpp"
#include "bench/endpoint/rows.hpp"
#include "bench/endpoint/two_processes.hpp"

/// Against libfabric on the same NIC, in the memory that it registers.
namespace hbmwire::bench {
namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);

class PutLatency final : public TwoProcesses<OurEnd, FabricEnd, AnswerWords> {
 public:
  PutLatency(const Effort& effort, std::shared_ptr<Peer> peer)
      : TwoProcesses(Kind::private_pages, kWord, std::move(peer)), chunks_(effort.chunks * 2) {}

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

class PutRate final : public TwoProcesses<OurEnd, FabricEnd, Sleep> {
 public:
  PutRate(const Effort& effort, std::shared_ptr<Peer> peer)
      : TwoProcesses(Kind::private_pages, kWord, std::move(peer)), chunks_(effort.chunks / 2) {}

  double ours() override { return request_ns(our_end(), kWord, chunks_); }

  double theirs() override { return request_ns(their_end(), kWord, chunks_); }

 private:
  unsigned chunks_;
};

}  // namespace

std::vector<Row> fabric_rows() {
  std::vector<Row> rows;
  rows.push_back(
      {.name = "fabric-put-8", .ours = "8 B put until seen", .theirs = "fi_inject_write"});
  rows.back().make = [peer = PutLatency::forked(Kind::private_pages, kWord)](const Effort& effort) {
    return std::make_unique<PutLatency>(effort, peer);
  };
  rows.push_back(
      {.name = "fabric-put-rate", .ours = "8 B put, 64 under way", .theirs = "fi_write"});
  rows.back().make = [peer = PutRate::forked(Kind::private_pages, kWord)](const Effort& effort) {
    return std::make_unique<PutRate>(effort, peer);
  };
  for (Row& row : rows) {
    row.better = Better::lower;
    row.limit = 1.0;
  }
  return rows;
}

}  // namespace hbmwire::bench
