// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "hbmwire/group.hpp"
#include "hbmwire/hbmwire.hpp"
#include "hbmwire/memory_key.hpp"

#include "bench/common/report.hpp"
#include "bench/common/timing.hpp"
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

/// One rank of `scripts/bench group`; bench/group/ranks starts them all. Rank 0 puts the bytes to
/// rank 1, and then broadcasts them to all, by turns. A broadcast passes pieces from rank to rank:
/// the time of the put, divided by the time of the broadcast, shows what that costs (1.0: nothing).
namespace hbmwire::bench {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 300s;

struct Options {
  std::uint64_t mib = 256;
  std::uint64_t piece_kib = BroadcastOptions{}.piece_bytes >> 10U;
  unsigned runs = 5;
  bool quick = false;
  bool json = false;

  [[nodiscard]] std::uint64_t bytes() const { return quick ? 1U << 20U : mib << 20U; }
};

struct Times {
  std::vector<double> put_ns;
  std::vector<double> broadcast_ns;
  std::vector<double> ratio;
};

/// A rank with its memory, and the keys of all ranks' memories.
struct Rank {
  Context context;
  Worker worker;
  Group group;
  Region memory;
  MemoryKey key;
  std::vector<std::vector<std::byte>> keys;

  static hbmwire::Result<Rank> meet(const Options& options) {
    HBMWIRE_TRY_ASSIGN(Context context, Context::create());
    HBMWIRE_TRY_ASSIGN(Worker worker, Worker::create(context));
    HBMWIRE_TRY_ASSIGN(Group group, Group::create(worker, kPatience));
    HBMWIRE_TRY_ASSIGN(Region memory,
                       context.allocate_region(MemoryType::host, options.bytes(),
                                               Access::remote_read | Access::remote_write));
    HBMWIRE_TRY_ASSIGN(MemoryKey key, MemoryKey::pack(memory));
    HBMWIRE_TRY_ASSIGN(auto keys, group.exchange(key.bytes(), kPatience));
    return Rank{std::move(context), std::move(worker), std::move(group),
                std::move(memory),  std::move(key),    std::move(keys)};
  }

  /// Rank 0 gets new bytes in each run, none of them zero, and the other ranks get zeros. A rank
  /// that a broadcast leaves out then fails the broadcast's comparison of digests.
  void fill(unsigned run) const {
    const auto bytes = memory.host_bytes();
    std::memset(bytes.data(), group.rank() == 0 ? static_cast<int>(run % 255 + 1) : 0,
                bytes.size());
  }

  hbmwire::Result<void> put_to_next() {
    HBMWIRE_TRY_ASSIGN(Endpoint* const next, group.endpoint(1, kPatience));
    HBMWIRE_TRY_ASSIGN(RemoteRegion remote, next->remote(keys[1]));
    HBMWIRE_TRY_ASSIGN(Transfer put, next->put(memory.slice(), remote.slice()));
    return put.wait(kPatience);
  }

  /// Rank 0's time from a barrier to the end of `work`; the other ranks wait in the next barrier.
  template <typename Work>
  hbmwire::Result<double> timed(Work work) {
    HBMWIRE_TRY(group.barrier(kPatience));
    const double began = now_ns();
    HBMWIRE_TRY(work());
    const double took = now_ns() - began;
    HBMWIRE_TRY(group.barrier(kPatience));
    return took;
  }
};

hbmwire::Result<Times> measure(Rank& rank, const Options& options) {
  const BroadcastOptions broadcast{.piece_bytes = options.piece_kib << 10U};
  Times times;
  const unsigned runs = options.quick ? 1 : options.runs;
  // The first run makes connections, and is not counted.
  for (unsigned run = 0; run <= runs; ++run) {
    rank.fill(run);
    HBMWIRE_TRY_ASSIGN(const double put_ns, rank.timed([&]() -> hbmwire::Result<void> {
      if (rank.group.rank() != 0) return {};
      return rank.put_to_next();
    }));
    rank.fill(run);  // clears the bytes that the put has brought to rank 1
    HBMWIRE_TRY_ASSIGN(const double broadcast_ns, rank.timed([&] {
      return rank.group.broadcast(rank.memory.slice(), 0, kPatience, broadcast);
    }));
    if (run == 0) continue;
    times.put_ns.push_back(put_ns);
    times.broadcast_ns.push_back(broadcast_ns);
    times.ratio.push_back(put_ns / broadcast_ns);
  }
  return times;
}

void print(const Options& options, const Rank& rank, const Times& times) {
  const double put_s = median(times.put_ns) / 1e9;
  const double broadcast_s = median(times.broadcast_ns) / 1e9;
  const double ratio = median(times.ratio);
  if (options.json) {
    const nlohmann::json object{{"row", "broadcast"},
                                {"machine", describe_machine()},
                                {"ranks", rank.group.size()},
                                {"bytes", options.bytes()},
                                {"piece_bytes", options.piece_kib << 10U},
                                {"runs", times.ratio.size()},
                                {"put_seconds", put_s},
                                {"broadcast_seconds", broadcast_s},
                                {"ratio", ratio},
                                {"ratios", times.ratio}};
    fmt::print("{}\n", object.dump(2));
    return;
  }
  constexpr double kLeast = 0.8;
  fmt::print("{}\n{} ranks, {} MiB in pieces of {} KiB, medians of {} runs\n", describe_machine(),
             rank.group.size(), options.bytes() >> 20U, options.piece_kib, times.ratio.size());
  fmt::print("put to one rank      {:8.3f} s\nbroadcast, verified  {:8.3f} s\n", put_s,
             broadcast_s);
  fmt::print("ratio                {:8.3f}   >= {} {}\n", ratio, kLeast,
             ratio >= kLeast ? "met" : "NOT met");
}

int main(int argc, char** argv) {
  CLI::App app("One rank of a benchmark: a broadcast to all ranks against a put to one.");
  Options options;
  app.add_option("--mib", options.mib, "mebibytes that are moved")->check(CLI::Range(1, 1 << 14));
  app.add_option("--piece-kib", options.piece_kib, "kibibytes of a piece of the broadcast")
      ->check(CLI::Range(4, 1 << 20));
  app.add_option("--runs", options.runs, "runs, of which the median counts")
      ->check(CLI::Range(1, 999));
  app.add_flag("--quick", options.quick, "one run of 1 MiB: does it run?");
  app.add_flag("--json", options.json, "a JSON object in place of the table");
  CLI11_PARSE(app, argc, argv);
  auto rank = Rank::meet(options);
  if (!rank) {
    fmt::print(stderr, "hbmwire_group_bench: {}\n", describe(rank.error()));
    return 1;
  }
  const auto times = measure(*rank, options);
  if (!times) {
    fmt::print(stderr, "hbmwire_group_bench: rank {}: {}\n", rank->group.rank(),
               describe(times.error()));
    return 1;
  }
  if (rank->group.rank() == 0) print(options, *rank, *times);
  return 0;
}

}  // namespace
}  // namespace hbmwire::bench

int main(int argc, char** argv) { return hbmwire::bench::main(argc, argv); }
