// SPDX-License-Identifier: MIT
#include "emulation/common/faults.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "emulation/common/world.hpp"

namespace hbmwire::emulation {
namespace {

// A plan is written by hand; more rules than this is a mistake, and the shared table must hold them
// all.
constexpr std::size_t kMaxRules = 64;
constexpr std::uint64_t kMaxErrno = 4095;  // MAX_ERRNO of the kernel's include/linux/err.h

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const auto first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// Cuts the part before `separator` off the front of `rest`; the last part is returned with `rest`
// made empty.
std::string_view next_part(std::string_view& rest, char separator) {
  const auto end = rest.find(separator);
  const auto part = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
  return trimmed(part);
}

std::string quoted(std::string_view text) {
  std::string result = "'";
  for (const char c : text.substr(0, 80)) result += c >= ' ' && c < '\x7f' ? c : '?';
  return result + "'";
}

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool is_word(std::string_view text, std::string_view extra) {
  return !text.empty() && text.size() <= 64 && std::ranges::all_of(text, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           extra.find(c) != std::string_view::npos;
  });
}

// Each of these returns an empty string, or what is wrong with the value.
std::string set_number(std::string_view value, std::uint64_t least, std::uint64_t most,
                       std::uint64_t& result) {
  const auto parsed = number(value);
  if (!parsed || *parsed < least || *parsed > most) {
    return "is not a number from " + std::to_string(least) + " to " + std::to_string(most);
  }
  result = *parsed;
  return {};
}

std::string set_errno(std::string_view value, int& result) {
  std::uint64_t parsed = 0;
  auto problem = set_number(value, 1, kMaxErrno, parsed);
  if (problem.empty()) result = static_cast<int>(parsed);
  return problem;
}

std::string apply_setting(FaultRule& rule, std::string_view key, std::string_view value) {
  const bool flip = rule.action == FaultRule::Action::flip;
  if (key == "nth") return set_number(value, 1, UINT64_MAX, rule.nth);
  if (key == "byte" && flip) return set_number(value, 0, UINT64_MAX, rule.byte);
  if (key == "errno" && !flip) return set_errno(value, rule.error_number);
  if (key == "node") {
    if (!is_word(value, "._-")) return "is not a node name (letters, digits, '.', '_', '-')";
    rule.node = value;
    return {};
  }
  if (key == "op" && flip) {
    if (value != "send" && value != "write" && value != "read") return "is not send, write or read";
    rule.subject = value;
    return {};
  }
  if (key == "call" && !flip) {
    if (!is_word(value, "_")) return "is not the name of a function";
    rule.subject = value;
    return {};
  }
  return flip ? "is not a setting of 'flip' (op, node, nth, byte)"
              : "is not a setting of 'fail' (call, node, nth, errno)";
}

// Returns an empty string, or what is wrong.
std::string parse_rule(std::string_view text, FaultRule& rule) {
  auto rest = text;
  const auto action = next_part(rest, ',');
  if (action == "flip") {
    rule.action = FaultRule::Action::flip;
  } else if (action == "fail") {
    rule.action = FaultRule::Action::fail;
  } else {
    return "action " + quoted(action) + " is neither 'flip' nor 'fail'";
  }

  std::vector<std::string_view> seen;
  bool more = text.find(',') != std::string_view::npos;
  while (more) {
    more = rest.find(',') != std::string_view::npos;
    const auto setting = next_part(rest, ',');
    const auto equals = setting.find('=');
    if (equals == std::string_view::npos)
      return "setting " + quoted(setting) + " is not of the form key=value";
    const auto key = trimmed(setting.substr(0, equals));
    const auto value = trimmed(setting.substr(equals + 1));
    if (std::ranges::find(seen, key) != seen.end())
      return "setting " + quoted(key) + " is given twice";
    seen.push_back(key);
    if (const auto problem = apply_setting(rule, key, value); !problem.empty()) {
      return quoted(setting) + " " + problem;
    }
  }
  if (rule.action == FaultRule::Action::fail && rule.subject.empty()) {
    return "'fail' needs call=<function>, for example call=ibv_reg_dmabuf_mr";
  }
  return {};
}

// <fabric>/faults: an open-addressing table, rule to counter. Processes of one fabric may run under
// different plans, so the key is what the rule says, not its place in the plan.
struct Slot {
  std::atomic<std::uint64_t> key;  // 0: free
  std::atomic<std::uint64_t> count;
};

constexpr std::size_t kSlots = 1024;  // 16 plans of kMaxRules each
static_assert(std::atomic<std::uint64_t>::is_always_lock_free,
              "the counters are shared between processes");
static_assert(sizeof(Slot) == 16);

// FNV-1a: the same in every process and shared object, which std::hash does not promise.
std::uint64_t key_of(const FaultRule& rule, std::size_t repetition) {
  const std::string text = std::to_string(static_cast<int>(rule.action)) + ',' + rule.subject +
                           ',' + rule.node + ',' + std::to_string(rule.nth) + ',' +
                           std::to_string(rule.byte) + ',' + std::to_string(rule.error_number) +
                           ',' + std::to_string(repetition);
  std::uint64_t hash = 0xcbf2'9ce4'8422'2325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100'0000'01b3;
  return hash == 0 ? 1 : hash;
}

Slot* map_table(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return nullptr;
  // Every process gives the file the same size, so it does not matter who comes first.
  void* table = MAP_FAILED;
  if (::ftruncate(fd, kSlots * sizeof(Slot)) == 0) {
    table = ::mmap(nullptr, kSlots * sizeof(Slot), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  const int saved = errno;
  ::close(fd);
  errno = saved;
  return table == MAP_FAILED ? nullptr : static_cast<Slot*>(table);
}

std::atomic<std::uint64_t>* find_counter(Slot* table, std::uint64_t key) {
  for (std::size_t probe = 0; probe < kSlots; ++probe) {
    Slot& slot = table[(key + probe) % kSlots];
    std::uint64_t present = 0;
    if (slot.key.compare_exchange_strong(present, key) || present == key) return &slot.count;
  }
  return nullptr;
}

}  // namespace

bool parse_fault_plan(std::string_view text, std::vector<FaultRule>& rules, std::string& error) {
  rules.clear();
  error.clear();
  std::vector<FaultRule> parsed;
  auto rest = text;
  for (std::size_t position = 1; !rest.empty(); ++position) {
    const auto part = next_part(rest, ';');
    if (part.empty()) continue;
    FaultRule rule;
    if (const auto problem = parse_rule(part, rule); !problem.empty()) {
      error =
          "fault plan: rule " + std::to_string(position) + " (" + quoted(part) + "): " + problem;
      return false;
    }
    parsed.push_back(std::move(rule));
    if (parsed.size() > kMaxRules) {
      error = "fault plan: more than " + std::to_string(kMaxRules) + " rules";
      return false;
    }
  }
  rules = std::move(parsed);
  return true;
}

FaultPlan& FaultPlan::of_this_process() {
  // Never destroyed: threads of a plugin may still post while the process exits.
  static auto* const plan = new FaultPlan;
  return *plan;
}

FaultPlan::FaultPlan() {
  const auto world = World::from_environment();
  const char* const text = std::getenv(kFaultsVariable);
  if (!world || text == nullptr) return;
  node_ = world->node_name();
  std::string error;
  if (!parse_fault_plan(text, rules_, error) || rules_.empty()) return;

  const auto path = world->fabric / "faults";
  Slot* const table = map_table(path);
  for (std::size_t i = 0; table != nullptr && i < rules_.size(); ++i) {
    const auto repetition =
        std::count(rules_.begin(), rules_.begin() + static_cast<std::ptrdiff_t>(i), rules_[i]);
    auto* const counter =
        find_counter(table, key_of(rules_[i], static_cast<std::size_t>(repetition)));
    if (counter == nullptr) break;
    counters_.push_back(counter);
  }
  if (counters_.size() != rules_.size()) {
    std::fprintf(stderr, "emulated: the fault plan is not active: no counters in %s: %s\n",
                 path.c_str(), table == nullptr ? std::strerror(errno) : "the table is full");
    rules_.clear();
  }
}

bool FaultPlan::counts_to_nth(std::size_t index, FaultRule::Action action,
                              std::string_view subject) noexcept {
  const FaultRule& rule = rules_[index];
  if (rule.action != action || (!rule.subject.empty() && rule.subject != subject)) return false;
  if (!rule.node.empty() && rule.node != node_) return false;
  // Orders nothing but itself: the counter alone decides who is the n-th.
  return counters_[index]->fetch_add(1, std::memory_order_relaxed) + 1 == rule.nth;
}

bool FaultPlan::flips(std::string_view op, std::uint64_t& byte) noexcept {
  bool acts = false;
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    if (!counts_to_nth(i, FaultRule::Action::flip, op)) continue;
    if (!acts) byte = rules_[i].byte;
    acts = true;
  }
  return acts;
}

int FaultPlan::fails(std::string_view call) noexcept {
  sweep_calls_.fetch_add(1, std::memory_order_relaxed);
  int error_number = 0;
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    if (counts_to_nth(i, FaultRule::Action::fail, call) && error_number == 0)
      error_number = rules_[i].error_number;
  }
  auto left =
      sweep_countdown_.load(std::memory_order_acquire);  // pairs with the store in fail_nth_call
  while (left >= 0 &&
         !sweep_countdown_.compare_exchange_weak(left, left - 1, std::memory_order_acquire)) {
  }
  return left == 0 ? sweep_error_.load(std::memory_order_relaxed) : error_number;
}

std::int64_t FaultPlan::fail_nth_call(std::int64_t n, int error_number) noexcept {
  sweep_error_.store(error_number, std::memory_order_relaxed);
  sweep_countdown_.store(n < 0 ? -1 : n,
                         std::memory_order_release);  // pairs with the load in fails
  return sweep_calls_.exchange(0, std::memory_order_relaxed);
}

}  // namespace hbmwire::emulation
