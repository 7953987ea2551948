// SPDX-License-Identifier: MIT
#include "tools/trace/summary.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

namespace hbmwire::tools::trace {
namespace {

// Among equals, the earlier one counts as slower.
bool is_slower(const TracedTransfer& one, const TracedTransfer& other) noexcept {
  return std::tuple(one.took_ns, -one.asked_ns) > std::tuple(other.took_ns, -other.asked_ns);
}

}  // namespace

bool Selection::has(const TracedTransfer& transfer) const {
  if (endpoint && transfer.endpoint != *endpoint) return false;
  if (!peer.empty() && transfer.peer.find(peer) == std::string::npos) return false;
  return transfer.over_ns() >= from_ns && (!to_ns || transfer.asked_ns <= *to_ns);
}

double Durations::sum_ns() const noexcept { return std::accumulate(all_.begin(), all_.end(), 0.0); }

std::int64_t Durations::quantile_ns(double share) {
  if (all_.empty()) return 0;
  const auto rank = std::ceil(share * static_cast<double>(all_.size())) - 1;
  const auto at = all_.begin() + static_cast<std::ptrdiff_t>(std::max(rank, 0.0));
  std::nth_element(all_.begin(), at, all_.end());
  return *at;
}

// --- the timeline

Timeline::Slot& Timeline::at(std::int64_t ns) {
  const std::int64_t since = std::max<std::int64_t>(ns - from_ns_, 0);
  // Joins pairs of slots into slots of twice the length until `ns` has one.
  while (static_cast<std::uint64_t>(since / slot_ns_) >= slots_.size()) {
    slot_ns_ *= 2;
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      Slot sum;
      for (std::size_t half = 2 * i; half < std::min(2 * i + 2, slots_.size()); ++half) {
        sum.bytes += slots_[half].bytes;
        sum.begun += slots_[half].begun;
        sum.ended += slots_[half].ended;
        sum.began_waiting += slots_[half].began_waiting;
        sum.ended_waiting += slots_[half].ended_waiting;
      }
      slots_[i] = sum;
    }
  }
  return slots_[static_cast<std::size_t>(since / slot_ns_)];
}

void Timeline::add(const TracedTransfer& transfer) {
  Slot& last = at(transfer.over_ns());
  last.bytes += transfer.bytes;
  ++last.ended;
  ++at(transfer.asked_ns).begun;
  if (transfer.wait.empty()) return;
  ++at(transfer.asked_ns).began_waiting;
  ++at(transfer.asked_ns + transfer.waited_ns()).ended_waiting;
}

std::vector<Timeline::Slot> Timeline::slots() const {
  const auto last = std::find_if(slots_.rbegin(), slots_.rend(), [](const Slot& slot) {
    return slot.begun != 0 || slot.ended != 0;
  });
  return {slots_.begin(), last.base()};
}

// --- the whole summary

Summary::Summary(Selection selection, std::size_t top)
    : selection_(std::move(selection)), top_(top), timeline_(selection_.from_ns) {}

void Summary::add(const TracedTransfer& transfer) {
  if (!selection_.has(transfer)) return;
  ++transfers_;
  key_.assign(transfer.kind);
  for (const std::string* const part : {&transfer.path, &transfer.nic}) {
    key_ += '\n';
    key_ += *part;
  }
  const auto [found, is_new] = groups_.try_emplace(key_);
  Group& group = found->second;
  if (is_new) {
    group.kind = transfer.kind;
    group.path = transfer.path;
    group.nic = transfer.nic;
  }
  if (!transfer.failed) group.bytes += transfer.bytes;
  if (transfer.failed) ++group.failed;
  if (!transfer.wait.empty()) ++group.waited;
  group.took.add(transfer.took_ns);
  if (!transfer.wait.empty()) waits_[transfer.wait].add(transfer.waited_ns());
  if (transfer.failed) {
    Failed& failed = failures_[transfer.error];
    if (failed.count++ == 0) {
      failed.error = transfer.error;
      failed.code = transfer.code;
      failed.hint = transfer.hint;
    }
  }
  timeline_.add(transfer);
  if (top_ == 0) return;
  if (slowest_.size() < top_) {
    slowest_.push_back(transfer);
    std::ranges::push_heap(slowest_, is_slower);
  } else if (is_slower(transfer, slowest_.front())) {
    std::ranges::pop_heap(slowest_, is_slower);
    slowest_.back() = transfer;
    std::ranges::push_heap(slowest_, is_slower);
  }
}

std::vector<Group*> Summary::groups() {
  std::vector<Group*> all;
  for (auto& [key, group] : groups_) all.push_back(&group);
  // `~` puts the largest first.
  const auto order = [](const Group* group) {
    return std::tuple(~group->bytes, ~std::uint64_t{group->took.count()}, group->kind, group->path,
                      group->nic);
  };
  std::ranges::sort(all, {}, order);
  return all;
}

std::vector<Failed> Summary::failures() const {
  std::vector<Failed> all;
  for (const auto& [error, failed] : failures_) all.push_back(failed);
  std::ranges::stable_sort(all, std::greater<>(), &Failed::count);
  return all;
}

std::vector<TracedTransfer> Summary::slowest() const {
  auto all = slowest_;
  std::ranges::sort(all, is_slower);
  return all;
}

}  // namespace hbmwire::tools::trace
