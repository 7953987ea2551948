// SPDX-License-Identifier: MIT
#include "tools/doctor/pairs/engine_run.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>

#include "hbmwire/context.hpp"
#include "hbmwire/memory_domain.hpp"

#include "tools/common/stopwatch.hpp"
#include "tools/doctor/pairs/contents.hpp"

namespace hbmwire::tools::doctor {
namespace {

/// Two windows of a device's memory.
struct EngineMemory {
  std::shared_ptr<MemoryDomain> domain;
  Allocation allocation;
};

Result<EngineMemory> open_engine(const Context& context, const PlanMemory& memory) {
  HBMWIRE_TRY_ASSIGN(auto domain, context.open(memory.type, {.device = memory.device}));
  HBMWIRE_TRY_ASSIGN(Allocation allocation, domain->allocate(2 * kWindowBytes));
  return EngineMemory{std::move(domain), std::move(allocation)};
}

/// Calls `round`, which moves a window, repeatedly for that time. Returns bytes per second.
Result<double> rate_of(std::chrono::milliseconds time, const std::function<Result<void>()>& round) {
  const Deadline end = Deadline::after(time);
  const Stopwatch stopwatch;
  double windows = 0;
  do {
    HBMWIRE_TRY(round());
    ++windows;
  } while (!end.passed());
  const auto nanoseconds = static_cast<double>(std::max<std::uint64_t>(stopwatch.nanoseconds(), 1));
  return windows * static_cast<double>(kWindowBytes) * 1e9 / nanoseconds;
}

class EngineRun {
 public:
  EngineRun(const EngineRuns& runs, EngineMemory& memory, Voice& voice, int fd)
      : runs_(runs), memory_(memory), voice_(voice), cancel_fd_(fd) {}

  void try_host() {
    report(pair_of(runs_.memory, "host"), [this](Pair& pair) { return by_host(pair); });
  }

  void try_target(const std::string& by, EngineMemory& target) {
    report(pair_of(runs_.memory, by),
           [this, &target](Pair& pair) { return by_engine(target, pair); });
  }

  void report_not_opened(const std::string& by, const Error& error) {
    Pair pair = pair_of(runs_.memory, by);
    pair.error = error_of(error);
    pair.outcome = error.code == Errc::busy ? PairOutcome::untried : PairOutcome::refused;
    voice_.say({{"pair", to_json(pair)}});
  }

 private:
  void report(Pair pair, const std::function<Result<void>(Pair&)>& run) {
    voice_.step(pair.by, "copy");
    pair.copy_path = memory_.domain->copy_engine();
    if (const auto done = run(pair); !done) pair.error = error_of(done.error());
    if (!pair.error) {
      pair.outcome = PairOutcome::copy;
      pair.path = to_string(Path::copy);
    }
    voice_.say({{"pair", to_json(pair)}});
  }

  [[nodiscard]] Wait wait() const { return {runs_.timing.step, cancel_fd_}; }

  [[nodiscard]] Contents contents_of(const EngineMemory& memory) const {
    const std::uint64_t base = memory.allocation.address();
    MemoryDomain* const domain = memory.domain.get();
    return {
        [this, base, domain](auto at, auto from) {
          return domain->copy_in(base + at, from, wait());
        },
        [this, base, domain](auto at, auto to) { return domain->copy_out(base + at, to, wait()); }};
  }

  /// Compares the second window of `memory`.
  Result<void> compare_in(const EngineMemory& memory, const Pattern& pattern, Pair& pair) {
    voice_.step(pair.by, "verify");
    HBMWIRE_TRY_ASSIGN(const Comparison found,
                       contents_of(memory).compare_with(kWindowBytes, pattern));
    pair.verified_bytes += found.bytes;
    pair.wrong_bytes += found.wrong_bytes;
    if (found.wrong_bytes == 0) return {};
    pair.error =
        error_of(make_error(Errc::data_mismatch, Stage::verify, "the engine copied wrong bytes",
                            memory.domain->device().name));
    return {};
  }

  Result<void> by_host(Pair& pair);
  Result<void> by_engine(EngineMemory& target, Pair& pair);

  const EngineRuns& runs_;
  EngineMemory& memory_;
  Voice& voice_;
  int cancel_fd_;
};

Result<void> EngineRun::by_host(Pair& pair) {
  const Pattern pattern{.seed = 2, .tag = Tag::write};
  Contents contents = contents_of(memory_);
  // Poisoned first, so that a copy that writes nothing is found.
  HBMWIRE_TRY(contents.poison(kWindowBytes, pattern));
  HBMWIRE_TRY(contents.fill(kWindowBytes, pattern));
  HBMWIRE_TRY(compare_in(memory_, pattern, pair));
  std::vector<std::byte> host(kWindowBytes);
  const std::uint64_t base = memory_.allocation.address();
  const auto time = runs_.timing.measure / 2;
  voice_.step(pair.by, "time");
  HBMWIRE_TRY_ASSIGN(pair.write_bytes_per_second,
                     rate_of(time, [&] { return memory_.domain->copy_in(base, host, wait()); }));
  HBMWIRE_TRY_ASSIGN(pair.read_bytes_per_second,
                     rate_of(time, [&] { return memory_.domain->copy_out(base, host, wait()); }));
  return {};
}

Result<void> EngineRun::by_engine(EngineMemory& target, Pair& pair) {
  if (!target.domain->copies_from(*memory_.domain)) {
    return tl::make_unexpected(make_error(Errc::not_supported, Stage::copy,
                                          "no engine copies between the two",
                                          target.domain->device().name));
  }
  const Pattern pattern{.seed = 3, .tag = Tag::write};
  HBMWIRE_TRY(contents_of(memory_).fill(0, pattern));
  HBMWIRE_TRY(contents_of(target).poison(kWindowBytes, pattern));
  const auto copy = [&]() -> Result<void> {
    HBMWIRE_TRY_ASSIGN(
        PendingCopy pending,
        target.domain->start_copy_from(*memory_.domain, memory_.allocation.address(),
                                       target.allocation.address() + kWindowBytes, kWindowBytes));
    return pending.wait(wait());
  };
  HBMWIRE_TRY(copy());
  HBMWIRE_TRY(compare_in(target, pattern, pair));
  voice_.step(pair.by, "time");
  HBMWIRE_TRY_ASSIGN(pair.write_bytes_per_second, rate_of(runs_.timing.measure, copy));
  return {};
}

}  // namespace

std::vector<PlanMemory> engine_targets(const PlanMemory& memory, const Plan& plan) {
  std::vector<PlanMemory> targets;
  // SynapseAI gives a process only one Gaudi, and no engine copies between two of them.
  if (memory.type == MemoryType::gaudi) return targets;
  std::ranges::copy_if(plan.memories, std::back_inserter(targets), [&](const PlanMemory& other) {
    return other.type == memory.type && other.label != memory.label;
  });
  return targets;
}

void EngineRuns::operator()(Voice& voice, int cancel_fd) const {
  voice.step("", "open");
  const auto tell = [&](const Error& error) {
    voice.say({{"memory_error", to_json(std::optional(error_of(error)))}});
  };
  ContextOptions options{.memory = {MemoryType::host}};
  if (memory.type != MemoryType::host) options.memory.push_back(memory.type);
  const auto context = Context::create(options);
  if (!context) return tell(context.error());
  auto own = open_engine(*context, memory);
  if (!own) return tell(own.error());
  EngineRun run(*this, *own, voice, cancel_fd);
  run.try_host();
  if (own->domain->copies_from(*own->domain)) run.try_target("itself", *own);
  for (const PlanMemory& target : targets) {
    voice.step(target.label, "open");
    auto other = open_engine(*context, target);
    if (!other) {
      run.report_not_opened(target.label, other.error());
    } else {
      run.try_target(target.label, *other);
    }
  }
}

}  // namespace hbmwire::tools::doctor
