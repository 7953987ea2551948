// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "emulation/nic/state/limits.hpp"

namespace hbmwire::emulation::nic {

/// Locks that a thread may hold by its mark alone (FavouredLock). It holds at most one of each.
enum class Place : std::uint8_t { sender, responder, completing, reading, posting };
inline constexpr std::size_t kPlaces = 5;

/// Tells by plain stores what a thread is doing (emulation/docs/adr/0022). Marks lie in memory that
/// all processes of a fabric share. A thread that needs to know first stores its own request, then
/// calls fence_all_threads(), and then reads the mark: either it sees the mark, or the marked
/// thread sees the request.
struct alignas(64) ThreadMark {
  std::atomic<std::uint64_t> thread;           // LockWord's id of the thread; 0: free
  std::atomic<std::uint64_t> token;            // names the thread in locks; never reused
  std::atomic<std::uint64_t> working;          // odd: in an Activity; each one has its own number
  std::atomic<std::uint64_t> inside[kPlaces];  // the lock that it holds; 0: none

  void begin_work() noexcept {
    step(std::memory_order_relaxed);
    // Comes before any look at a key; pairs with fence_all_threads().
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }

  void end_work() noexcept { step(std::memory_order_release); }

 private:
  void step(std::memory_order order) noexcept {
    working.store(working.load(std::memory_order_relaxed) + 1, order);
  }
};

static_assert(sizeof(ThreadMark) == 64);

inline constexpr std::uint32_t kMarksOfProcess = 64;  // further threads take the slow paths

/// The mark of the calling thread.
class OwnMark {
 public:
  /// Tokens of threads without a mark. A lock never has one of these as its favourite.
  static constexpr std::uint64_t kNotAsked = 1;
  static constexpr std::uint64_t kNone = 2;

  /// Null if the thread has no mark, or has not asked for one.
  static ThreadMark* get() noexcept { return own_.mark; }

  static std::uint64_t token() noexcept { return own_.token; }

  /// Asks for a mark if the thread has not asked yet. Returns null if none is left.
  static ThreadMark* ask() noexcept { return own_.token == kNotAsked ? claim() : own_.mark; }

 private:
  static ThreadMark* claim() noexcept;
  static void release(void* claimed) noexcept;
  static void forget() noexcept;

  friend class ThreadMarks;

  // Found without a function call, as LockWord's thread-local data.
  struct Own {
    ThreadMark* mark = nullptr;
    std::uint64_t token = kNotAsked;
  };

  [[gnu::tls_model("initial-exec")]] static constinit thread_local Own own_;
};

/// The marks of all processes of a fabric.
class ThreadMarks {
 public:
  using Table = std::array<ThreadMark, kMarksOfProcess>;

  /// Says where a fabric's marks lie. `tables` has one table for each process; a lock's name is its
  /// distance from `base`. Call it before any lock of the fabric is taken, because a joining
  /// process takes over locks of dead ones.
  static void find(Table* tables, const std::byte* base) noexcept;

  /// Makes this process use marks. `own` is its table, `end` bounds the marks that its threads have
  /// used, and `next_id` supplies numbers that are never reused. Returns false if the kernel lacks
  /// the fence.
  static bool attach(std::uint32_t own, std::atomic<std::uint32_t>& end,
                     std::atomic<std::uint64_t>& next_id) noexcept;

  /// Stops using marks, in a forked child.
  static void detach() noexcept;

  /// Whether the kernel supports fence_all_threads().
  static bool are_possible() noexcept;

  /// The mark that a token names.
  static ThreadMark& of(std::uint64_t token) noexcept {
    return (*(tables_ + token / kMarksOfProcess % kTables)).at(token % kMarksOfProcess);
  }

  /// The name of a lock in ThreadMark::inside, which is the same in all processes.
  static std::uint64_t name_of(const void* lock) noexcept {
    return reinterpret_cast<std::uint64_t>(lock) - reinterpret_cast<std::uint64_t>(base_);
  }

 private:
  friend class OwnMark;
  static constexpr std::uint64_t kTables = kMaxProcesses;
  // A token is a multiple of kTokenUnit plus the mark's index among all marks, for of().
  static constexpr std::uint64_t kTokenUnit = kTables * kMarksOfProcess;

  static Table* tables_;
  static std::uint32_t own_;
  static const std::byte* base_;
  static std::atomic<std::uint32_t>* end_;
  static std::atomic<std::uint64_t>* next_id_;  // null: there are no marks
};

/// Makes every thread of every process that has marks execute a full memory barrier, between two of
/// its instructions, before this returns.
void fence_all_threads() noexcept;

}  // namespace hbmwire::emulation::nic
