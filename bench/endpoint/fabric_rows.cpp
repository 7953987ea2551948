// SPDX-License-Identifier: MIT
#include "bench/endpoint/fabric_end.hpp"
#include "bench/endpoint/put_contests.hpp"
#include "bench/endpoint/rows.hpp"

/// Rows against libfabric on the same NIC, in memory that libfabric registers.
namespace hbmwire::bench {
namespace {

// Each write into private pages is a system call, so fewer chunks fill a slice than in raw_rows().
constexpr Kind kMemory = Kind::private_pages;

}  // namespace

std::vector<Row> fabric_rows() {
  std::vector<Row> rows;
  rows.push_back(
      {.name = "fabric-put-8", .ours = "8 B put until seen", .theirs = "fi_inject_write"});
  using Latency = PutLatency<FabricEnd>;
  rows.back().make = [peer = Latency::forked(kMemory, kWord)](const Effort& effort) {
    return std::make_unique<Latency>(kMemory, effort.chunks * 2, peer);
  };
  rows.push_back(
      {.name = "fabric-put-rate", .ours = "8 B put, 64 under way", .theirs = "fi_write"});
  using Rate = PutRate<FabricEnd>;
  rows.back().make = [peer = Rate::forked(kMemory, kWord)](const Effort& effort) {
    return std::make_unique<Rate>(kMemory, kWord, effort.chunks / 2, peer);
  };
  for (Row& row : rows) {
    row.better = Better::lower;
    row.limit = kLatencyBound;
  }
  return rows;
}

}  // namespace hbmwire::bench
