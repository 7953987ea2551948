// SPDX-License-Identifier: MIT
#include "emulation/common/faults.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "emulation/common/self_signal.hpp"
#include "emulation/common/world.hpp"

namespace hbmwire::emulation {
namespace {

/// The finaliser of splitmix64.
std::uint64_t mixed(std::uint64_t value) {
  value = (value ^ (value >> 30U)) * 0xbf58'476d'1ce4'e5b9;
  value = (value ^ (value >> 27U)) * 0x94d0'49bb'1331'11eb;
  return value ^ (value >> 31U);
}

/// Whether a rule with a chance acts on its `match`-th match. The result depends only on the rule's
/// key, which includes the seed, and on that number, so it is the same in every run.
bool takes(const FaultRule& rule, std::uint64_t key, std::uint64_t match) {
  return mixed(key + match * 0x9e37'79b9'7f4a'7c15) % FaultRule::kCertain < rule.chance;
}

void add(OperationFaults& faults, const FaultRule& rule) {
  switch (rule.action) {
    case FaultRule::Action::fail:
      if (faults.error_number == 0) faults.error_number = rule.error_number;
      break;
    case FaultRule::Action::flip:
      if (!faults.flip) faults.flip_byte = rule.byte;
      faults.flip = true;
      break;
    case FaultRule::Action::drop:
      faults.drop = true;
      break;
    case FaultRule::Action::delay:
      faults.delay_ns += rule.time_ns;
      break;
    case FaultRule::Action::late:
      faults.late_ns += rule.time_ns;
      break;
    case FaultRule::Action::revoke:
      faults.revoke = true;
      break;
    case FaultRule::Action::link:
      faults.link = {true, rule.time_ns};
      break;
    default:
      break;
  }
}

void add(CallFaults& faults, const FaultRule& rule) {
  switch (rule.action) {
    case FaultRule::Action::fail:
      if (faults.error_number == 0) faults.error_number = rule.error_number;
      break;
    case FaultRule::Action::revoke:
      faults.revoke = true;
      break;
    case FaultRule::Action::link:
      faults.link = {true, rule.time_ns};
      break;
    default:
      break;
  }
}

}  // namespace

std::atomic<unsigned> FaultPlan::planned_points_{0};

FaultPlan& FaultPlan::of_this_process() {
  // Never destroyed: threads of the plugin may still post while the process exits.
  static auto* const kPlan = new FaultPlan;
  return *kPlan;
}

FaultPlan::FaultPlan() {
  const auto world = World::from_environment();
  const char* const text = std::getenv(kFaultsVariable);
  if (!world || text == nullptr) return;
  node_ = world->node_name();
  std::string error;
  if (!parse_fault_plan(text, rules_, error) || rules_.empty()) return;

  const auto path = world->fabric / "faults";
  counters_ = map_fault_counters(path, rules_);
  if (counters_.empty()) {
    std::fprintf(stderr, "emulated: the fault plan is not active: no counters in %s: %s\n",
                 path.c_str(), std::strerror(errno));
    rules_.clear();
  }
  unsigned points = 0;
  for (const FaultRule& rule : rules_) points |= bit_of(rule.point);
  planned_points_.fetch_or(points, std::memory_order_relaxed);
}

bool FaultPlan::is_for(const FaultRule& rule, FaultRule::Point point,
                       std::string_view subject) const noexcept {
  if (rule.point != point || (!rule.node.empty() && rule.node != node_)) return false;
  // The answer of an atomic is not payload.
  if (rule.action == FaultRule::Action::flip && subject == "atomic") return false;
  return rule.subject.empty() || rule.subject == subject;
}

/// Counts a match of the rule, and returns whether the rule acts on it.
bool FaultPlan::acts(std::size_t index) noexcept {
  const FaultRule& rule = rules_[index];
  FaultCounter& counter = *counters_[index];
  // No ordering is needed: only the counter decides which match is the n-th.
  const std::uint64_t match = counter.matches.fetch_add(1, std::memory_order_relaxed) + 1;
  if (match < rule.nth || (match - rule.nth) % rule.period() != 0) return false;
  if (rule.chance == 0) return (match - rule.nth) / rule.period() < rule.most_acts();
  return takes(rule, counter.key.load(std::memory_order_relaxed), match) &&
         counter.acts.fetch_add(1, std::memory_order_relaxed) < rule.most_acts();
}

/// Counts the match for each rule that it is for, and calls `perform` with the rules that act on
/// it. Kills and stops come last, when every rule has counted the match.
template <typename Do>
void FaultPlan::act(FaultRule::Point point, std::string_view subject, Do&& perform) noexcept {
  const FaultRule* signal = nullptr;
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    const FaultRule& rule = rules_[i];
    if (!is_for(rule, point, subject) || !acts(i)) continue;
    const bool kills = rule.action == FaultRule::Action::kill;
    if (kills || rule.action == FaultRule::Action::stop) {
      if (signal == nullptr || kills) signal = &rule;
    } else {
      perform(rule);
    }
  }
  if (signal == nullptr) return;
  if (signal->action == FaultRule::Action::kill) kill_this_process();
  stop_this_process(signal->time_ns);
}

OperationFaults FaultPlan::on_operation(std::string_view op) noexcept {
  OperationFaults faults;
  act(FaultRule::Point::operation, op, [&](const FaultRule& rule) { add(faults, rule); });
  if (faults.error_number == 0) faults.error_number = planned_refusal();
  return faults;
}

CallFaults FaultPlan::on_data_path_call(std::string_view call) noexcept {
  CallFaults faults;
  act(FaultRule::Point::call, call, [&](const FaultRule& rule) { add(faults, rule); });
  return faults;
}

CallFaults FaultPlan::on_call(std::string_view call) noexcept {
  CallFaults faults = on_data_path_call(call);
  faults.error_number = planned_by_sweep(call, faults.error_number);
  return faults;
}

void FaultPlan::on_step(std::string_view step) noexcept {
  act(FaultRule::Point::step, step, [](const FaultRule&) {});
}

std::uint64_t FaultPlan::limit_of(std::string_view object) const noexcept {
  std::uint64_t least = UINT64_MAX;
  for (const FaultRule& rule : rules_) {
    if (is_for(rule, FaultRule::Point::creation, object) && rule.count < least) least = rule.count;
  }
  return least;
}

int FaultPlan::planned_by_sweep(std::string_view call, int otherwise) noexcept {
  sweep_calls_.fetch_add(1, std::memory_order_relaxed);
  const char* const failing = failing_call_.load();
  if (failing != nullptr && call == failing) return failing_with_.load();
  // Pairs with the store in fail_nth_call().
  auto left = sweep_countdown_.load(std::memory_order_acquire);
  while (left >= 0 &&
         !sweep_countdown_.compare_exchange_weak(left, left - 1, std::memory_order_acquire)) {
  }
  return left == 0 ? sweep_error_.load(std::memory_order_relaxed) : otherwise;
}

void FaultPlan::fail_calls(const char* call, int error_number) noexcept {
  failing_with_.store(error_number);
  failing_call_.store(call);
}

void FaultPlan::refuse_operations(std::uint64_t n, std::uint64_t count, int error_number) noexcept {
  operations_.store(0);
  refused_with_.store(error_number);
  refused_from_.store(n);
  refused_until_.store(n + count);
  planned_points_.fetch_or(bit_of(FaultRule::Point::operation), std::memory_order_relaxed);
}

int FaultPlan::planned_refusal() noexcept {
  const std::uint64_t n = operations_.fetch_add(1);
  return n >= refused_from_.load() && n < refused_until_.load() ? refused_with_.load() : 0;
}

std::int64_t FaultPlan::fail_nth_call(std::int64_t n, int error_number) noexcept {
  sweep_error_.store(error_number, std::memory_order_relaxed);
  // Pairs with the load in planned_by_sweep().
  sweep_countdown_.store(n < 0 ? -1 : n, std::memory_order_release);
  return sweep_calls_.exchange(0, std::memory_order_relaxed);
}

}  // namespace hbmwire::emulation
