// SPDX-License-Identifier: MIT
#include "tools/doctor/pairs/nic_run.hpp"

#include <algorithm>
#include <optional>

#include "hbmwire/buffer.hpp"
#include "hbmwire/context.hpp"
#include "hbmwire/settings.hpp"

#include "tools/doctor/pairs/contents.hpp"
#include "tools/doctor/pairs/open_memory.hpp"
#include "tools/doctor/pairs/traffic.hpp"

namespace hbmwire::tools::doctor {
namespace {

/// Tests one NIC with the memory.
class NicRun {
 public:
  NicRun(const NicRuns& runs, const OpenMemory& memory, const PlanNic& nic, Voice& voice, int fd)
      : runs_(runs),
        memory_(memory),
        nic_(nic),
        voice_(voice),
        cancel_fd_(fd),
        pair_(pair_of(runs.memory, nic.name, nic.address)) {}

  Pair run() {
    if (const auto done = go(); !done) {
      pair_.error = error_of(done.error());
      const Stage stage = done.error().stage;
      const bool before_work = stage == Stage::probe || stage == Stage::open ||
                               stage == Stage::allocate || stage == Stage::export_dmabuf ||
                               stage == Stage::register_memory;
      pair_.outcome = before_work ? PairOutcome::refused : PairOutcome::failed;
    }
    return pair_;
  }

 private:
  Result<void> go();
  Result<void> move_and_compare(Traffic& traffic, Contents& contents);
  Result<bool> one_way(bool write, Traffic& traffic, Contents& contents);
  Result<void> measure(Traffic& traffic);
  void judge(const Nic& nic, const Region& region);
  void note_staged(const Region& region);

  void step(const char* what) { voice_.step(nic_.name, what); }

  [[nodiscard]] Wait wait() const { return {runs_.timing.step, cancel_fd_}; }

  const NicRuns& runs_;
  const OpenMemory& memory_;
  const PlanNic& nic_;
  Voice& voice_;
  int cancel_fd_;
  Pair pair_;
};

Result<void> NicRun::go() {
  step("open");
  // One context for each NIC, separate from the open device. It registers memory as endpoints do,
  // with this user's settings and policy.
  HBMWIRE_TRY_ASSIGN(const Context context,
                     Context::create({.memory = {MemoryType::host}, .nics = {nic_.name}}));
  HBMWIRE_TRY_ASSIGN(const auto nics, context.open_nics());
  const Nic& nic = nics.front();
  step("register");
  HBMWIRE_TRY_ASSIGN(const Region region, context.register_memory(memory_.allocation, kPairAccess));
  pair_.path = to_string(region.path());
  // In Path, the paths on which the NIC itself reaches the memory come first, up to peer_memory.
  if (region.path() > Path::peer_memory) {
    note_staged(region);
    return {};
  }
  HBMWIRE_TRY_ASSIGN(Buffer buffer, Buffer::create(region));
  pair_.copy_path = buffer.copy_path();
  step("connect");
  HBMWIRE_TRY_ASSIGN(Traffic traffic,
                     Traffic::in_loopback(nic, region, context.settings().endpoint.link,
                                          runs_.timing.step, cancel_fd_));
  Contents contents([&](auto at, auto from) { return buffer.write(at, from, wait()); },
                    [&](auto at, auto to) { return buffer.read(at, to, wait()); });
  HBMWIRE_TRY(move_and_compare(traffic, contents));
  if (pair_.error) return {};
  HBMWIRE_TRY(measure(traffic));
  // Compares only the last pass, because each pass overwrites the one before.
  HBMWIRE_TRY_ASSIGN(const Comparison last,
                     contents.compare_with(kWindowBytes, {.seed = 1, .tag = Tag::read}));
  pair_.verified_bytes += last.bytes;
  pair_.wrong_bytes += last.wrong_bytes;
  if (last.wrong_bytes != 0) {
    pair_.error = wrong_bytes(pair_.by, pair_.memory, "timed part", last);
    return {};
  }
  judge(nic, region);
  return {};
}

void NicRun::note_staged(const Region& region) {
  pair_.outcome = PairOutcome::staged;
  pair_.error = refusal_of(region);
}

/// Tests a write, then a read. Poisons the target first, and covers each byte of it once.
Result<void> NicRun::move_and_compare(Traffic& traffic, Contents& contents) {
  for (const bool write : {true, false}) {
    HBMWIRE_TRY_ASSIGN(const bool right, one_way(write, traffic, contents));
    if (!right) return {};
  }
  return {};
}

Result<bool> NicRun::one_way(bool write, Traffic& traffic, Contents& contents) {
  const Pattern pattern{.seed = 1, .tag = write ? Tag::write : Tag::read};
  step("copy");
  HBMWIRE_TRY(contents.fill(0, pattern));
  HBMWIRE_TRY(contents.poison(kWindowBytes, pattern));
  step(write ? "write" : "read");
  HBMWIRE_TRY(traffic.move_window(write));
  step("verify");
  HBMWIRE_TRY_ASSIGN(const Comparison found, contents.compare_with(kWindowBytes, pattern));
  pair_.verified_bytes += found.bytes;
  pair_.wrong_bytes += found.wrong_bytes;
  if (found.wrong_bytes != 0)
    pair_.error = wrong_bytes(pair_.by, pair_.memory, write ? "write" : "read", found);
  return found.wrong_bytes == 0;
}

Result<void> NicRun::measure(Traffic& traffic) {
  step("time");
  HBMWIRE_TRY_ASSIGN(const Figures figures, traffic.measure(runs_.timing.measure));
  pair_.write_bytes_per_second = figures.write_bytes_per_second;
  pair_.read_bytes_per_second = figures.read_bytes_per_second;
  pair_.latency_ns = figures.latency_ns;
  return {};
}

void NicRun::judge(const Nic& nic, const Region& region) {
  const Possible possible = possible_between(memory_, nic, runs_.memcpy_bytes_per_second);
  pair_.distance = possible.distance;
  pair_.possible_bytes_per_second = possible.bytes_per_second;
  pair_.limit = possible.limit;
  const bool emulated = runs_.memcpy_bytes_per_second > 0;
  const double slowest =
      judged_rate(emulated, pair_.write_bytes_per_second, pair_.read_bytes_per_second);
  pair_.outcome = outcome_of(region.path(), slowest, possible.bytes_per_second, emulated);
}

}  // namespace

void NicRuns::operator()(Voice& voice, int cancel_fd) const {
  voice.step("", "open");
  const auto open = open_memory(memory);
  if (!open) {
    voice.say({{"memory_error", to_json(std::optional(error_of(open.error())))}});
    return;
  }
  for (const PlanNic& nic : nics) {
    if (timing.budget.passed()) return;
    voice.say({{"pair", to_json(NicRun(*this, *open, nic, voice, cancel_fd).run())}});
  }
}

}  // namespace hbmwire::tools::doctor
