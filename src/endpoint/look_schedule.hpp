// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace hbmwire::detail {

/// The place of an entry in a LookSchedule; a part of the entry.
struct LookPlace {
  static constexpr std::size_t kNone = ~std::size_t{0};

  std::chrono::steady_clock::time_point next{};
  std::size_t index = kNone;  // kNone: in no schedule
};

/// The endpoints of a worker, ordered by when each one must be looked after next. A heap, so that
/// an event at one of a thousand endpoints costs nothing at the others. `Entry` has a LookPlace
/// `look`.
template <class Entry>
class LookSchedule {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Adds an entry that is due at once. Throws std::bad_alloc.
  void add(std::shared_ptr<Entry> entry) {
    heap_.push_back(nullptr);
    entry->look = {};
    put(heap_.size() - 1, std::move(entry));
    move_up(heap_.size() - 1);
  }

  /// Sets when the entry is due.
  void look_at(Entry& entry, Time when) noexcept {
    entry.look.next = when;
    move_up(entry.look.index);
    move_down(entry.look.index);
  }

  /// Makes the entry due at `when`, if it is in the schedule and not due before.
  void look_earlier(Entry& entry, Time when) noexcept {
    if (entry.look.index == LookPlace::kNone || entry.look.next <= when) return;
    entry.look.next = when;
    move_up(entry.look.index);
  }

  /// Makes all entries due.
  void look_at_all() noexcept {
    for (const auto& entry : heap_) entry->look.next = {};
  }

  /// The entry that is due first, if it is due before `at`; otherwise null.
  [[nodiscard]] Entry* due(Time at) const noexcept {
    return next() < at ? heap_.front().get() : nullptr;
  }

  /// When the first one is due; time_point::max(): never.
  [[nodiscard]] Time next() const noexcept {
    return heap_.empty() ? Time::max() : heap_.front()->look.next;
  }

  /// Takes the entry out of the schedule, in which it must be.
  std::shared_ptr<Entry> take_out(Entry& entry) noexcept {
    const std::size_t index = entry.look.index;
    std::shared_ptr<Entry> taken = std::move(heap_[index]);
    taken->look.index = LookPlace::kNone;
    std::shared_ptr<Entry> last = std::move(heap_.back());
    heap_.pop_back();
    if (index < heap_.size()) {
      Entry& moved = *last;
      put(index, std::move(last));
      move_up(index);
      move_down(moved.look.index);
    }
    return taken;
  }

  /// Takes all entries out.
  void clear() noexcept {
    for (const auto& entry : heap_) entry->look.index = LookPlace::kNone;
    // Entries that are destroyed here may call back: they find an empty heap.
    const auto gone = std::exchange(heap_, {});
  }

  [[nodiscard]] bool empty() const noexcept { return heap_.empty(); }

  [[nodiscard]] std::size_t size() const noexcept { return heap_.size(); }

  // All entries, in no order. look_earlier() of the current entry is allowed in a loop: it only
  // changes places with entries that came before.
  [[nodiscard]] auto begin() const noexcept { return heap_.begin(); }

  [[nodiscard]] auto end() const noexcept { return heap_.end(); }

 private:
  void put(std::size_t index, std::shared_ptr<Entry> entry) noexcept {
    entry->look.index = index;
    heap_[index] = std::move(entry);
  }

  void move_up(std::size_t index) noexcept {
    std::shared_ptr<Entry> moved = std::move(heap_[index]);
    while (index != 0 && moved->look.next < heap_[(index - 1) / 2]->look.next) {
      put(index, std::move(heap_[(index - 1) / 2]));
      index = (index - 1) / 2;
    }
    put(index, std::move(moved));
  }

  void move_down(std::size_t index) noexcept {
    std::shared_ptr<Entry> moved = std::move(heap_[index]);
    for (std::size_t child = 2 * index + 1; child < heap_.size(); child = 2 * index + 1) {
      if (child + 1 < heap_.size() && heap_[child + 1]->look.next < heap_[child]->look.next)
        ++child;
      if (heap_[child]->look.next >= moved->look.next) break;
      put(index, std::move(heap_[child]));
      index = child;
    }
    put(index, std::move(moved));
  }

  std::vector<std::shared_ptr<Entry>> heap_;  // a heap: the earliest first
};

}  // namespace hbmwire::detail
