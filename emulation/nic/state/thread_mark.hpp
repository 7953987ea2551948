// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "emulation/nic/state/limits.hpp"

namespace hbmwire::emulation::nic {

/// Locks that a thread may hold by its mark alone (FavouredLock): one of each at a time.
enum class Place : std::uint8_t { sender, responder, completing, reading, posting };
inline constexpr std::size_t kPlaces = 5;

/// Where a thread says by plain stores what it is at (emulation/docs/adr/0022).
/// It lies in memory that all processes of a fabric share. Who wants to know of it says first what
/// he wants, then calls fence_all_threads(), and looks here then: either he sees the mark, or the
/// thread sees what he said.
struct alignas(64) ThreadMark {
  std::atomic<std::uint64_t> thread;           // LockWord's id of it, 0: free
  std::atomic<std::uint64_t> token;            // names it in locks; never used again
  std::atomic<std::uint64_t> working;          // odd: in an Activity, each time another number
  std::atomic<std::uint64_t> inside[kPlaces];  // the lock that it holds, 0: none

  void begin_work() noexcept {
    step(std::memory_order_relaxed);
    // Before any look at a key; the others' half is fence_all_threads().
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }

  void end_work() noexcept { step(std::memory_order_release); }

 private:
  void step(std::memory_order order) noexcept {
    working.store(working.load(std::memory_order_relaxed) + 1, order);
  }
};

static_assert(sizeof(ThreadMark) == 64);

inline constexpr std::uint32_t kMarksOfProcess = 64;  // threads beyond them take the slow ways

/// The mark of the calling thread.
class OwnMark {
 public:
  /// Tokens of threads without a mark, which no lock ever names.
  static constexpr std::uint64_t kNotAsked = 1;
  static constexpr std::uint64_t kNone = 2;

  /// Null: it has none, or did not ask yet.
  static ThreadMark* get() noexcept { return own_.mark; }

  static std::uint64_t token() noexcept { return own_.token; }

  /// Null: there is none for it.
  static ThreadMark* ask() noexcept { return own_.token == kNotAsked ? claim() : own_.mark; }

 private:
  static ThreadMark* claim() noexcept;
  static void release(void* claimed) noexcept;
  static void forget() noexcept;

  friend class ThreadMarks;

  // Found without a call, as LockWord's.
  struct Own {
    ThreadMark* mark = nullptr;
    std::uint64_t token = kNotAsked;
  };

  [[gnu::tls_model("initial-exec")]] static constinit thread_local Own own_;
};

/// The marks of all processes of a fabric, as this process sees them.
class ThreadMarks {
 public:
  using Table = std::array<ThreadMark, kMarksOfProcess>;

  /// Where a fabric's marks lie: `tables` has one table a process, and locks are named by where
  /// they lie behind `base`. Before any lock of the fabric is taken: who joins takes those of the
  /// dead.
  static void find(Table* tables, const std::byte* base) noexcept;

  /// This process is a member of that fabric now: `own` is its table, `end` says how far its
  /// threads use that, and `next_id` gives numbers that are used once. False: the kernel has no
  /// such fence.
  static bool attach(std::uint32_t own, std::atomic<std::uint32_t>& end,
                     std::atomic<std::uint64_t>& next_id) noexcept;

  /// It is none any more: a forked child.
  static void detach() noexcept;

  /// The kernel can do fence_all_threads().
  static bool are_possible() noexcept;

  static ThreadMark& of(std::uint64_t token) noexcept {
    return (*(tables_ + token / kMarksOfProcess % kTables)).at(token % kMarksOfProcess);
  }

  /// What a lock is called in ThreadMark::inside, by all processes.
  static std::uint64_t name_of(const void* lock) noexcept {
    return reinterpret_cast<std::uint64_t>(lock) - reinterpret_cast<std::uint64_t>(base_);
  }

 private:
  friend class OwnMark;
  static constexpr std::uint64_t kTables = kMaxProcesses;
  static constexpr std::uint64_t kTokenUnit = kTables * kMarksOfProcess;

  static Table* tables_;
  static std::uint32_t own_;
  static const std::byte* base_;
  static std::atomic<std::uint32_t>* end_;
  static std::atomic<std::uint64_t>* next_id_;  // null: there are no marks
};

/// Every thread of every process that has marks executes a full memory barrier before this returns,
/// between two of its instructions.
void fence_all_threads() noexcept;

}  // namespace hbmwire::emulation::nic
