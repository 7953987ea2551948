// SPDX-License-Identifier: MIT
#include <algorithm>
#include <string>

#include "bench/common/ucx.hpp"
#include "bench/perf/our_perf.hpp"
#include "bench/perf/rows.hpp"

namespace hbmwire::bench {
namespace {

constexpr std::size_t k64k = 64 << 10;
constexpr std::size_t k1m = 1 << 20;

struct Case {
  const char* name;    // name of the row
  const char* ours;    // test of `hbmwire perf`
  const char* theirs;  // test of ucx_perftest
  std::size_t bytes;
  unsigned iterations;
  const char* memory;               // for our side; UCX uses only host memory
  double limit = 0;                 // in ns more than UCX, or relative to its bandwidth; 0: none
  const char* transport = "posix";  // for UCX; with "posix" its memory is shared
};

bool is_private(const Case& what) { return std::string(what.transport) != "posix"; }

/// Starts both programs anew in each slice. Our memory is host memory, shared or private as UCX's
/// is, or a card's, which the emulated NIC carries.
class Programs final : public Contest {
 public:
  Programs(const Case& what, const Effort& effort)
      : case_(what),
        iterations_(effort.quick ? std::max(200U, what.iterations / 50) : what.iterations) {}

  double ours() override {
    PerfTest test{.name = case_.ours,
                  .bytes = case_.bytes,
                  .iterations = iterations_,
                  .options = {"--memory", case_.memory}};
    if (is_private(case_)) {
      test.options.emplace_back("--private");
      test.server_options.emplace_back("--private");
    }
    const PerfFigures figures = hbmwire_perf(test);
    return figures.typical_ns > 0 ? figures.typical_ns : figures.message_ns;
  }

  double theirs() override {
    const bool tags = std::string(case_.theirs) == "tag_bw";
    const UcxFigures figures = ucx_perftest({.name = case_.theirs,
                                             .iterations = iterations_,
                                             .transport = case_.transport,
                                             .bytes = case_.bytes,
                                             .outstanding = tags ? 128U : 1U});
    return is_latency() ? figures.median_ns : figures.average_ns;
  }

 private:
  [[nodiscard]] bool is_latency() const { return std::string(case_.ours).ends_with("lat"); }

  Case case_;
  unsigned iterations_;
};

constexpr Case kCases[] = {
    {"shm-put-lat-8", "put_lat", "ucp_put_lat", 8, 50'000, "host", 40},
    {"shm-put-bw-8", "put_bw", "ucp_put_bw", 8, 200'000, "host"},
    {"shm-put-bw-4k", "put_bw", "ucp_put_bw", 4096, 100'000, "host"},
    {"shm-put-bw-64k", "put_bw", "ucp_put_bw", k64k, 20'000, "host", 0.9},
    {"shm-put-bw-1m", "put_bw", "ucp_put_bw", k1m, 1000, "host", 0.9},
    {"shm-get-lat-8", "get_lat", "ucp_get", 8, 50'000, "host"},
    {"shm-get-bw-1m", "get_bw", "ucp_get", k1m, 1000, "host", 0.9},
    {"shm-tag-lat-8", "tag_lat", "tag_lat", 8, 50'000, "host", 80},
    {"shm-tag-bw-64k", "tag_bw", "tag_bw", k64k, 10'000, "host", 0.9},
    {"shm-tag-bw-1m", "tag_bw", "tag_bw", k1m, 1000, "host", 0.9},
    {"shm-private-tag-bw-64k", "tag_bw", "tag_bw", k64k, 10'000, "host", 0.9, "posix,cma"},
    {"shm-private-tag-bw-1m", "tag_bw", "tag_bw", k1m, 1000, "host", 0.9, "posix,cma"},
    // For puts UCX always uses shared memory, whatever the option says.
    {"shm-private-put-bw-1m", "put_bw", "ucp_put_bw", k1m, 1000, "host", 0, "posix,cma"},
    {"shm-put-bw-1m-gaudi", "put_bw", "ucp_put_bw", k1m, 500, "gaudi"},
};

Row shared_memory_row(const Case& what) {
  Row row{
      .name = what.name,
      .ours = std::string(what.ours) + ", " + (is_private(what) ? "private " : "") + what.memory,
      .theirs = std::string("UCX ") + what.transport + " " + what.theirs};
  const bool latency = std::string(what.ours).ends_with("lat");
  row.better = latency ? Better::lower : Better::higher;
  row.bytes = latency || what.bytes == 8 ? 0 : what.bytes;
  if (what.bytes == 8) row.better = Better::lower;  // shown in ns
  row.difference = what.limit > 1;                  // such a limit is in ns
  if (what.limit != 0) row.limit = what.limit;
  row.make = [what](const Effort& effort) { return std::make_unique<Programs>(what, effort); };
  return row;
}

}  // namespace

std::vector<Row> shared_memory_rows() {
  std::vector<Row> rows;
  for (const Case& what : kCases) rows.push_back(shared_memory_row(what));
  return rows;
}

}  // namespace hbmwire::bench
