// SPDX-License-Identifier: MIT
//
// How many addresses a second Context::find() looks up, on one core and with every type of memory
// loaded that this machine has. Google Benchmark measures, and this prints one line for each kind
// of address.
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <random>
#include <string>
#include <vector>

#include "hbmwire/context.hpp"
#include "hbmwire/memory_domain.hpp"

#include <CLI/CLI.hpp>

namespace hbmwire::bench {
namespace {

constexpr double kAimPerSecond = 10e6;  // for host addresses
constexpr std::uint64_t kDeviceBytes = 1 << 20;

/// Addresses of one kind, in random order, so that successive look-ups differ.
struct Kind {
  std::string name;
  std::vector<std::uint64_t> addresses;
};

std::vector<std::uint64_t> some_of(std::uint64_t base, std::uint64_t size) {
  constexpr std::size_t kCount = 1024;
  std::mt19937_64 random(1);  // NOLINT(cert-msc51-cpp): every run looks up the same places
  std::vector<std::uint64_t> addresses(kCount);
  for (auto& address : addresses) address = base + random() % size;
  return addresses;
}

/// The memory of all kinds, kept while it is looked up.
struct Memory {
  std::vector<Allocation> allocations;
  std::vector<Kind> kinds;
};

void add_host(Memory& memory) {
  constexpr std::size_t kHostBytes = 64 << 20;
  static std::vector<std::byte> heap(1 << 16);
  void* const mapped =
      ::mmap(nullptr, kHostBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memory.kinds.push_back(
      {"host: heap", some_of(std::bit_cast<std::uint64_t>(heap.data()), heap.size())});
  if (mapped != MAP_FAILED)
    memory.kinds.push_back(
        {"host: mapped", some_of(std::bit_cast<std::uint64_t>(mapped), kHostBytes)});
  // The code of libc stands for memory that a program has from its start.
  memory.kinds.push_back(
      {"host: static", some_of(std::bit_cast<std::uint64_t>(&std::fputs), 4096)});
}

void add_device(Memory& memory, const Context& context, MemoryType type,
                const MemoryOptions& options) {
  const auto domain = context.open(type, options);
  if (!domain) {
    std::fprintf(stderr, "left out: %s\n", describe(domain.error()).c_str());
    return;
  }
  const auto allocation = (*domain)->allocate(kDeviceBytes);
  if (!allocation) {
    std::fprintf(stderr, "left out: %s\n", describe(allocation.error()).c_str());
    return;
  }
  memory.allocations.push_back(*allocation);
  memory.kinds.push_back({fmt::format("{}: by {}", to_string(type), (*domain)->device().driven_by),
                          some_of(allocation->address(), kDeviceBytes)});
}

/// Makes memory of every type that there is. Gaudi cards of one process can have the same
/// addresses, which find() tells apart only if the card is named, so cards are driven in one way at
/// a time.
Memory make_memory(const Context& context, MemoryOptions::Owner owner) {
  Memory memory;
  add_host(memory);
  for (const MemoryProbe& probe : context.memory()) {
    if (probe.missing || probe.devices.empty() || probe.type == MemoryType::host) continue;
    MemoryOptions options;
    options.owner = owner;
    add_device(memory, context, probe.type, options);
  }
  return memory;
}

void look_up(benchmark::State& state, const Context& context,
             const std::vector<std::uint64_t>& addresses) {
  std::size_t at = 0;
  for (auto _ : state) {
    auto info = context.find(addresses[at]);
    benchmark::DoNotOptimize(info);
    at = (at + 1) % addresses.size();
  }
  state.SetItemsProcessed(state.iterations());
}

/// Whether a run has failed. Google Benchmark 1.8 and newer can also skip runs.
template <class Run>
bool has_failed(const Run& run) {
  if constexpr (requires { run.error_occurred; })
    return run.error_occurred;
  else
    return run.skipped != 0;
}

/// Prints one line for each kind: the median of the repetitions, and their range.
class Lines final : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context& /*context*/) override { return true; }

  void ReportRuns(const std::vector<Run>& runs) override {
    std::vector<double> rates;
    for (const Run& run : runs) {
      if (run.run_type == Run::RT_Iteration && !has_failed(run))
        rates.push_back(run.counters.at("items_per_second"));
    }
    if (rates.empty()) return;
    std::ranges::sort(rates);
    const double median = rates[rates.size() / 2];
    const std::string name = runs.front().run_name.function_name;
    const char* verdict = "";
    if (name.starts_with("host")) verdict = median >= kAimPerSecond ? "met" : "NOT MET";
    std::fputs(
        fmt::format("{:<24} {:>8.1f} {:>8.1f} .. {:<8.1f} {:>7.1f}  {}\n", name, median / 1e6,
                    rates.front() / 1e6, rates.back() / 1e6, 1e9 / median, verdict)
            .c_str(),
        stdout);
    std::fflush(stdout);
  }
};

struct Options {
  bool quick = false;
  int repetitions = 11;
};

void print_head(const Context& context) {
  const bool emulated = std::getenv("HBMWIRE_EMULATION_NODE") != nullptr;
  fmt::print("Context::find(){}; loaded:", emulated ? " with EMULATED devices" : "");
  for (const MemoryProbe& probe : context.memory()) {
    if (!probe.missing) fmt::print(" {} ({})", to_string(probe.type), probe.devices.size());
  }
  fmt::print("\n{:<24} {:>8} {:>8}    {:<8} {:>7}  aim for host addresses: 10 M/s\n", "address",
             "median", "least", "most", "ns");
  fmt::print("{:<24} {:>8}\n", "", "M/s");
}

int measure(const Options& options) {
  const auto context = Context::create();
  if (!context) {
    std::fprintf(stderr, "%s\n", describe(context.error()).c_str());
    return 1;
  }
  print_head(*context);
  Lines lines;
  for (const auto owner : {MemoryOptions::Owner::automatic, MemoryOptions::Owner::hl_thunk}) {
    const bool again = owner != MemoryOptions::Owner::automatic;
    const Memory memory = make_memory(*context, owner);
    benchmark::ClearRegisteredBenchmarks();
    for (const Kind& kind : memory.kinds) {
      // Only Gaudi's memory depends on the owner; all else was measured in the first round.
      if (again && !kind.name.starts_with("gaudi")) continue;
      benchmark::RegisterBenchmark(
          kind.name.c_str(),
          [&](benchmark::State& state) { look_up(state, *context, kind.addresses); })
          ->Repetitions(options.quick ? 1 : options.repetitions)
          ->MinTime(options.quick ? 0.001 : 0.1);
    }
    benchmark::RunSpecifiedBenchmarks(&lines);
  }
  return 0;
}

int run_program(int argc, char** argv) {
  CLI::App app(
      "How many addresses a second Context::find() tells apart, on one core, with every type of "
      "memory loaded.");
  Options options;
  app.add_flag("--quick", options.quick, "one short repetition of each row: does it run?");
  app.add_option("--repetitions", options.repetitions, "of each row, 0.1 s each")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  CLI11_PARSE(app, argc, argv);
  // Google Benchmark reads no arguments: all of them are ours, and are read already.
  int no_arguments = 1;
  benchmark::Initialize(&no_arguments, argv);
  return measure(options);
}

}  // namespace
}  // namespace hbmwire::bench

int main(int argc, char** argv) {
  try {
    return hbmwire::bench::run_program(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench: %s\n", error.what());
    return 1;
  }
}
