// SPDX-License-Identifier: MIT
#pragma once

namespace hbmwire::detail {

/// A linked list through the entries' own `next`. Does not own the entries.
template <class T>
struct Chain {
  T* first = nullptr;
  T* last = nullptr;  // valid only if `first` is not null

  [[nodiscard]] bool empty() const noexcept { return first == nullptr; }

  void append(T& entry) noexcept {
    entry.next = nullptr;
    (first == nullptr ? first : last->next) = &entry;
    last = &entry;
  }

  /// The chain must not be empty.
  T& take_first() noexcept {
    T& entry = *first;
    first = entry.next;
    return entry;
  }

  /// Takes out the first entry for which `fits` is true; null if there is none.
  template <class Fits>
  T* take(const Fits& fits) noexcept {
    T* before = nullptr;
    for (T* entry = first; entry != nullptr; before = entry, entry = entry->next) {
      if (!fits(*entry)) continue;
      (before == nullptr ? first : before->next) = entry->next;
      if (last == entry) last = before;
      return entry;
    }
    return nullptr;
  }
};

}  // namespace hbmwire::detail
