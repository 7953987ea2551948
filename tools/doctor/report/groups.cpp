// SPDX-License-Identifier: MIT
#include "tools/doctor/report/groups.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "hbmwire/error.hpp"

#include "tools/doctor/report/ranking.hpp"

namespace hbmwire::tools::doctor {
namespace {

// The steps in the order of a buffer's life. A step that is not listed comes last.
constexpr std::array<std::string_view, 15> kSteps{
    "configure", "probe", "open", "allocate", "export", "register", "connect", "post",
    "copy",      "write", "read", "complete", "verify", "time",     kSlowStep};

std::size_t place_of_step(std::string_view step) {
  return static_cast<std::size_t>(std::ranges::find(kSteps, step) - kSteps.begin());
}

/// Whether all measured pairs for which `same` holds are slow.
template <class Same>
bool all_slow(const Pairs& pairs, Same same) {
  return std::ranges::all_of(pairs.pairs, [&](const Pair& pair) {
    return !same(pair) || pair.outcome == PairOutcome::slow || !pair.works();
  });
}

/// The part that makes a pair slow: its NIC if that is slow with all memories, its memory if that
/// is slow with all NICs, else the pair itself.
std::string slow_subject(const Pair& pair, const Pairs& pairs) {
  if (all_slow(pairs, [&](const Pair& other) { return other.by == pair.by; })) return pair.by;
  if (all_slow(pairs, [&](const Pair& other) { return other.memory == pair.memory; }))
    return pair.memory;
  return name_of(pair);
}

PairError slow_error(const Pair& pair, const std::string& subject) {
  return {.step = std::string(kSlowStep),
          .code = "slow",
          .hint = "none",
          .text = fmt::format("slow: {}: {:.2f} GB/s with {}, {:.2g} % of the {:.2f} GB/s that are "
                              "possible ({})",
                              subject, pair.bytes_per_second() / 1e9,
                              subject == pair.by ? pair.memory : pair.by, pair.share() * 100,
                              pair.possible_bytes_per_second / 1e9, pair.limit)};
}

/// The group of pairs that are slow for the same reason. The slowest pair represents it.
Group& slow_group(std::vector<Group>& groups, const Pair& pair, const Pairs& pairs) {
  const std::string subject = slow_subject(pair, pairs);
  auto found =
      std::ranges::find_if(groups, [&](const Group& group) { return group.subject == subject; });
  if (found == groups.end()) {
    found = groups.insert(groups.end(), Group{.subject = subject, .slow = true});
    found->error = slow_error(pair, subject);
  } else if (pair.share() < found->pairs.front()->share()) {
    found->error = slow_error(pair, subject);
  }
  return *found;
}

Group& failed_group(std::vector<Group>& groups, const Pair& pair) {
  const bool staged = pair.outcome == PairOutcome::staged;
  const auto same = [&](const Group& group) {
    return group.error == *pair.error && group.slow == staged;
  };
  const auto found = std::ranges::find_if(groups, same);
  if (found != groups.end()) return *found;
  return groups.emplace_back(Group{.error = *pair.error, .slow = staged});
}

/// The pair of the same NIC with host memory if that is slow or fails; else null.
const Pair* troubled_nic_of(const Pair& pair, const Pairs& pairs) {
  const auto found = std::ranges::find_if(pairs.pairs, [&](const Pair& other) {
    return other.memory == "host" && other.by == pair.by &&
           (other.outcome == PairOutcome::slow || other.outcome == PairOutcome::failed);
  });
  return found == pairs.pairs.end() || &*found == &pair ? nullptr : &*found;
}

/// Before a device copies, the NIC flushes its earlier writes by a read in loopback (Buffer). If
/// the copy takes too long, and the NIC is also bad with host memory, the NIC causes the delay.
/// Returns the pair of that NIC with host memory; null if the NIC is not the cause.
const Pair* late_by_nic(const Group& group, const Pairs& pairs) {
  if (group.error.step != "copy" || group.error.code != to_string(Errc::timed_out)) return nullptr;
  const Pair* culprit = nullptr;
  for (const Pair* pair : group.pairs) {
    culprit = troubled_nic_of(*pair, pairs);
    if (culprit == nullptr) return nullptr;
  }
  return culprit;
}

/// Moves copies that a NIC delays after the failure of that NIC itself.
void blame_nics(std::vector<Group>& groups, const Pairs& pairs) {
  for (Group& group : groups) {
    const Pair* const host = late_by_nic(group, pairs);
    if (host == nullptr) continue;
    group.error.text +=
        fmt::format("; it waits for {}, which is no better with host memory", host->by);
    if (host->error) group.follows = place_of_step(host->error->step) + 1;
  }
}

}  // namespace

std::vector<Group> groups_of(const Pairs& pairs) {
  std::vector<Group> groups;
  for (const Pair& pair : pairs.pairs) {
    const bool slow = pair.outcome == PairOutcome::slow;
    if (!slow && !pair.error) continue;
    Group& group = slow ? slow_group(groups, pair, pairs) : failed_group(groups, pair);
    // The slowest pair comes first.
    const bool first = slow && !group.pairs.empty() && pair.share() < group.pairs.front()->share();
    group.pairs.insert(first ? group.pairs.begin() : group.pairs.end(), &pair);
  }
  blame_nics(groups, pairs);
  const auto place = [](const Group& group) {
    return std::pair(group.slow, std::max(place_of_step(group.error.step), group.follows));
  };
  std::ranges::stable_sort(groups, {}, place);
  return groups;
}

}  // namespace hbmwire::tools::doctor
