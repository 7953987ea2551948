// SPDX-License-Identifier: MIT
#include "counterpart.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iterator>
#include <utility>

#include "operation.hpp"

namespace hbmwire::test {

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// Receives of each kind posted at a time. They are few, so that some messages arrive before their
// receive.
constexpr std::uint64_t kAhead = 4;

}  // namespace

void Counterpart::complain(const std::string& what) {
  ++complaints_;
  std::fprintf(stderr, "  peer: %s\n", what.c_str());
}

bool Counterpart::post(Kind kind) {
  const auto which = static_cast<std::size_t>(kind);
  std::uint64_t& next = next_.at(which);
  if (next == kSlots || next - over_.at(which) >= kAhead) return false;
  const Slice place = inbox_.slice((which * kSlots + next) * kSlotBytes, kSlotBytes);
  auto started = kind == Kind::plain    ? endpoint_.receive(place)
                 : kind == Kind::tagged ? endpoint_.receive(place, TagMatch{next})
                                        : endpoint_.receive_immediate();
  if (!started) return false;  // the endpoint has ended
  posted_.push_back({kind, next++, std::move(*started)});
  return true;
}

void Counterpart::go_on() {
  // Polls all of them before it looks at one: polling makes progress, which may end an earlier and
  // a later one.
  const auto first_over = std::stable_partition(
      posted_.begin(), posted_.end(), [](const Posted& each) { return !each.transfer.done(); });
  std::vector<Posted> over;
  std::move(first_over, posted_.end(), std::back_inserter(over));
  posted_.erase(first_over, posted_.end());
  for (const Posted& each : over) take(each);
  for (const Kind kind : {Kind::plain, Kind::tagged, Kind::immediate}) {
    while (post(kind)) {
    }
  }
}

void Counterpart::take(const Posted& posted) {
  if (posted.kind != Kind::echo) ++over_.at(static_cast<std::size_t>(posted.kind));
  // The transfer has ended, so poll() changes nothing.
  const auto over = const_cast<Transfer&>(posted.transfer).poll();
  if (!over) {
    if (describe(over.error()).empty()) complain("an outcome without a name");
    return;
  }
  if (posted.kind == Kind::immediate) take_immediate(posted.transfer);
  if (posted.kind != Kind::tagged) return;
  if (posted.transfer.value() != posted.ordinal) complain("a message of another tag");
  const std::uint64_t at = (kSlots + posted.ordinal) * kSlotBytes;
  auto echo = endpoint_.send(inbox_.slice(at, posted.transfer.bytes()), posted.ordinal);
  if (echo) posted_.push_back({Kind::echo, posted.ordinal, std::move(*echo)});
}

void Counterpart::take_immediate(const Transfer& transfer) {
  const std::uint64_t number = transfer.value();
  if (number < at_least_) {
    complain("an immediate twice, or out of order: " + std::to_string(number) + " behind " +
             std::to_string(at_least_ - 1));
  }
  at_least_ = number + 1;
  // An immediate of a list belongs to its last part.
  const auto slot = shared_.target.subspan((1 + number % (kSlots - 1)) * kSlotBytes, kSlotBytes);
  if (transfer.bytes() > kSlotBytes) return complain("an immediate of more than was put");
  if (transfer.bytes() != 0 && slot.front() != content_of(number, 0))
    complain("an immediate before its bytes");
}

void Counterpart::end(std::chrono::nanoseconds bound) {
  for (Posted& posted : posted_) {
    const auto begun = Clock::now();
    const auto over = posted.transfer.wait(20ms);
    if (Clock::now() - begun > bound) complain("a wait took longer than its bound");
    if (!posted.transfer.done()) complain("a transfer is not over after its wait");
    if (!over && describe(over.error()).empty()) complain("an outcome without a name");
  }
}

}  // namespace hbmwire::test
