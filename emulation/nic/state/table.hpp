// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>

/// Support for the sparse tables of the shared state. Claiming a record, and walking over the
/// records in use, must cost only as much as there are records in use, and touch no others.
namespace hbmwire::emulation::nic {

/// A set of numbers below N. It has a bit for each number, and a bit for each word of those bits,
/// so that a walk costs as much as there are numbers in the set. Zeroed memory is an empty set. One
/// thread may change it while others walk over it.
template <std::size_t N>
class NumberSet {
 public:
  void add(std::uint32_t number) noexcept {
    words_[number / kBits].fetch_or(bit(number));
    groups_[number / kBits / kBits].fetch_or(bit(number / kBits));
  }

  void remove(std::uint32_t number) noexcept {
    const std::uint64_t left = words_[number / kBits].fetch_and(~bit(number)) & ~bit(number);
    if (left == 0) groups_[number / kBits / kBits].fetch_and(~bit(number / kBits));
  }

  /// The first number in the set from `number` on, or N.
  [[nodiscard]] std::uint32_t first_from(std::uint32_t number) const noexcept {
    while (number < N) {
      const std::uint32_t word = number / kBits;
      const std::uint64_t bits = words_[word].load() >> number % kBits;
      if (bits != 0) return number + static_cast<std::uint32_t>(std::countr_zero(bits));
      number = next_word(word + 1) * kBits;
    }
    return N;
  }

  /// The first number from `number` up to `end` that is not in the set, or 0.
  [[nodiscard]] std::uint32_t first_missing(std::uint32_t number,
                                            std::uint32_t end) const noexcept {
    while (number < end) {
      const std::uint64_t bits = ~words_[number / kBits].load() >> number % kBits;
      if (bits != 0) {
        const auto found = number + static_cast<std::uint32_t>(std::countr_zero(bits));
        return found < end ? found : 0;
      }
      number = (number / kBits + 1) * kBits;
    }
    return 0;
  }

  /// Keeps the numbers that `stays` returns true for, and repairs a change that was cut short by a
  /// kill. Returns how many it keeps.
  template <typename Stays>
  std::uint32_t keep(Stays stays) noexcept {
    std::uint32_t count = 0;
    for (std::uint32_t word = 0; word < kWords; ++word) {
      std::uint64_t bits = words_[word].load();
      for (std::uint64_t left = bits; left != 0; left &= left - 1) {
        const auto at = static_cast<std::uint32_t>(std::countr_zero(left));
        if (!stays(word * kBits + at)) bits &= ~bit(at);
      }
      words_[word].store(bits);
      count += static_cast<std::uint32_t>(std::popcount(bits));
      if (bits != 0) {
        groups_[word / kBits].fetch_or(bit(word));
      } else {
        groups_[word / kBits].fetch_and(~bit(word));
      }
    }
    return count;
  }

 private:
  static constexpr std::uint32_t kBits = 64;
  static constexpr std::uint32_t kWords = N / kBits;
  static constexpr std::uint32_t kGroups = (kWords + kBits - 1) / kBits;
  static_assert(N % kBits == 0);

  static constexpr std::uint64_t bit(std::uint32_t number) { return 1ULL << number % kBits; }

  /// The first word from `word` on that is not empty, or kWords.
  [[nodiscard]] std::uint32_t next_word(std::uint32_t word) const noexcept {
    while (word < kWords) {
      const std::uint64_t bits = groups_[word / kBits].load() >> word % kBits;
      if (bits != 0) return word + static_cast<std::uint32_t>(std::countr_zero(bits));
      word = (word / kBits + 1) * kBits;
    }
    return kWords;
  }

  std::atomic<std::uint64_t> groups_[kGroups];
  std::atomic<std::uint64_t> words_[kWords];
};

/// The records of a table that are in use. Indices from kFirst up to kEnd are given out; 0 means
/// "none" everywhere. Zeroed memory means that no record is in use.
///
/// The caller holds the table's lock, except for first_from(). A record enters the set before its
/// own `claimed` is set, and leaves the set after its `claimed` is cleared. A process that is
/// killed in between leaves a record too many in the set, until the next holder of the lock calls
/// rebuild().
template <std::size_t N, std::uint32_t kFirst = 1, std::uint32_t kEnd = N,
          std::uint32_t kLeastRound = std::min<std::uint32_t>(kEnd, 1024)>
class RecordUse {
 public:
  /// Enters a free record and returns its index; 0: the table is full. Indices are given out in
  /// turn, so that one is not reused at once. The round is kLeastRound indices long, and longer
  /// only while many are in use, so that little memory is touched.
  std::uint32_t claim() noexcept {
    const std::uint32_t limit = std::clamp(2 * (count_ + kFirst), kLeastRound, kEnd);
    if (next_ < kFirst || next_ >= limit) next_ = kFirst;
    std::uint32_t index = used_.first_missing(next_, limit);
    if (index == 0) index = used_.first_missing(kFirst, kEnd);
    if (index == 0) return 0;
    next_ = index + 1;
    ++count_;
    used_.add(index);
    return index;
  }

  void release(std::uint32_t index) noexcept {
    --count_;
    used_.remove(index);
  }

  /// The first record in use from `index` on, or N.
  [[nodiscard]] std::uint32_t first_from(std::uint32_t index) const noexcept {
    return used_.first_from(index);
  }

  template <typename IsClaimed>
  void rebuild(IsClaimed is_claimed) noexcept {
    count_ = used_.keep(is_claimed);
  }

 private:
  static_assert(kLeastRound <= kEnd && kEnd <= N);

  std::uint32_t next_;
  std::uint32_t count_;
  NumberSet<N> used_;
};

/// The records in use, in order, each as it is when the walk reaches it.
template <typename Record, typename Use>
class RecordsInUse {
 public:
  class Iterator {
   public:
    Iterator(const RecordsInUse& all, std::uint32_t index) : all_(all), index_(index) {}

    Record& operator*() const { return all_.table_[index_]; }

    Iterator& operator++() {
      index_ = all_.use_.first_from(index_ + 1);
      return *this;
    }

    bool operator!=(const Iterator& other) const { return index_ != other.index_; }

   private:
    const RecordsInUse& all_;
    std::uint32_t index_;
  };

  RecordsInUse(std::span<Record> table, const Use& use) : table_(table), use_(use) {}

  [[nodiscard]] Iterator begin() const { return {*this, use_.first_from(0)}; }

  [[nodiscard]] Iterator end() const { return {*this, static_cast<std::uint32_t>(table_.size())}; }

 private:
  std::span<Record> table_;
  const Use& use_;
};

template <typename Record, std::size_t N, typename Use>
RecordsInUse<Record, Use> in_use(Record (&table)[N], const Use& use) {
  return {table, use};
}

/// The records of a table that were ever claimed. The table is filled from its beginning; `next` is
/// one more than the last index that was claimed.
template <typename Record, std::size_t N>
std::span<Record> touched(Record (&table)[N], std::uint32_t next) {
  return {table, std::min<std::size_t>(next, N)};
}

}  // namespace hbmwire::emulation::nic
