// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "emulation/common/world.hpp"
#include "emulation/nic/state/fifo.hpp"
#include "emulation/nic/state/links.hpp"
#include "emulation/nic/state/owed.hpp"
#include "emulation/nic/state/parkable.hpp"
#include "emulation/nic/state/port_files.hpp"
#include "emulation/nic/state/shared_state.hpp"

namespace hbmwire::emulation::nic {

class Sender;

enum class ObjectKind : std::uint8_t { context, pd, mr, cq, qp, channel, ah, srq, xrcd, mw };
inline constexpr std::size_t kObjectKinds = 10;

/// This process as a member of its fabric: the mapped state, its slot, its liveness and its event
/// FIFOs. It is made when the first NIC is opened. It is never destroyed, because threads may still
/// run when the process exits.
///
/// After fork() the child is not a member (man ibv_fork_init: only the parent may go on). The
/// child's copy is `abandoned`, and verbs on inherited objects fail with EIO. If the child opens a
/// device, it becomes a member of its own.
class Process {
 public:
  /// Joins the fabric on first use. Returns null with errno if there is no world or joining fails.
  static Process* join();

  /// From now on fork(2) holds the lock of join(), so that a child never inherits it locked.
  static void watch_forks();

  /// Null if no NIC has been opened yet.
  static Process* current() noexcept;

  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  Process(Process&&) = delete;
  Process& operator=(Process&&) = delete;
  ~Process() = delete;

  [[nodiscard]] const World& world() const noexcept { return world_; }

  [[nodiscard]] SharedState& shared() const noexcept { return *shared_; }

  template <typename T>
  [[nodiscard]] T* at(std::uint64_t offset) const noexcept {
    return reinterpret_cast<T*>(base_ + offset);
  }

  [[nodiscard]] std::uint32_t slot() const noexcept { return slot_; }

  [[nodiscard]] bool abandoned() const noexcept {
    return abandoned_.load(std::memory_order_relaxed);
  }

  /// Whether the process in `slot` is alive. If its sign of life does not say so, the kernel is
  /// asked, at most every 10 ms.
  [[nodiscard, gnu::always_inline]] bool alive(std::uint32_t slot) noexcept {
    return slot == slot_ || shared_->processes[slot].life.is_given() || asked_alive(slot);
  }

  [[nodiscard]] std::int32_t pid_of(std::uint32_t slot) const noexcept {
    return shared_->processes[slot].pid.load(std::memory_order_relaxed);
  }

  /// Frees everything that a dead process left. Takes Header::allocation. Skips records that a
  /// stopped process has locked; the next caller frees them. Returns true if the process was dead
  /// and nothing of it is left.
  bool reap(std::uint32_t slot);

  /// A number that is used only once in the life of the fabric.
  std::uint64_t new_id() noexcept { return shared_->header.next_id.fetch_add(1) + 1; }

  /// Gives the memory of a range of the state file back to the system. The range reads as zeros.
  void punch_hole(std::uint64_t offset, std::uint64_t bytes) noexcept;

  [[nodiscard]] std::filesystem::path directory_of(std::uint32_t slot) const;

  Fifos& fifos() noexcept { return fifos_; }

  /// Wakes the process in `slot` to look at its parked requests.
  void poke(std::uint32_t slot) noexcept;

  LinkState links() noexcept { return {world_.fabric, *shared_, fifos_}; }

  PortFiles& port_files() noexcept { return port_files_; }

  /// Writes the counters to sysfs, without the requests that are in execution.
  void write_port_files();

  /// Adds a sender whose traffic is to be collected.
  void add_metered(const std::shared_ptr<Sender>& sender);

  /// Wakes the helper thread, and starts it if there is none.
  void wake_helper() noexcept;

  /// As wake_helper(), but does nothing in the helper thread itself, which looks for due work
  /// anyway.
  void wake_other_helper() noexcept;

  /// Held while a window of this process is bound or unbound and while an MR is deregistered: an MR
  /// with a bound window must stay. Not taken inside an Activity.
  std::mutex windows;

  // Requests that wait for something (queue/parking.cpp).
  void add_parked(const std::shared_ptr<Parkable>& parked);
  void remove_parked(const Parkable* parked);

  /// Makes the helper thread look at the parked requests at `due_ns` at the latest.
  void wake_by(std::uint64_t due_ns) noexcept {
    if (due_ns < helper_due_ns_.load()) wake_other_helper();
  }

  /// Called when the process ends.
  void end_parked();

  void progress_parked() {
    if (parked_count_.load(std::memory_order_relaxed) != 0 || owed_.any()) progress_all_parked();
  }

  /// Puts a task off until it can be done (state/owed.hpp). Any lock may be held.
  void owe(Owed::Task task, std::uint64_t line = 0);

  /// If earlier tasks of `line` are waiting, puts `task` off too and returns true.
  bool owe_behind(std::uint64_t line, const Owed::Task& task) {
    return owed_.add_behind(line, task);
  }

  [[nodiscard]] bool owes() const noexcept { return owed_.any(); }

  void count(ObjectKind kind, int change) noexcept {
    live_[static_cast<std::size_t>(kind)].fetch_add(static_cast<unsigned>(change),
                                                    std::memory_order_relaxed);
  }

  [[nodiscard]] unsigned live(ObjectKind kind) const noexcept {
    return live_[static_cast<std::size_t>(kind)].load(std::memory_order_relaxed);
  }

 private:
  explicit Process(World world);

  int map_state();
  int claim_slot();
  int attach_marks();
  int make_directory();
  bool lock_is_held(std::uint32_t slot) const noexcept;
  bool asked_alive(std::uint32_t slot) noexcept;
  bool reap_locked(std::uint32_t slot);
  bool reap_queue_pair(QpRecord& qp, std::set<std::uint32_t>& ports);
  bool reap_queue_pairs(std::uint32_t slot);
  bool reap_queues(std::uint32_t slot);
  void reap_keys(std::uint32_t slot);
  void abandon() noexcept;
  std::vector<std::shared_ptr<Parkable>> parked_now();
  std::vector<std::shared_ptr<Parkable>> next_parked(std::size_t most);
  void progress_all_parked();
  void start_helper();
  bool drain_metered();
  std::uint64_t help();
  void run_helper();

  static void before_fork();
  static void after_fork_in_parent();
  static void after_fork_in_child();

  World world_;
  std::byte* base_ = nullptr;
  SharedState* shared_ = nullptr;
  // Holds the OFD lock. Closed in a forked child, so the lock ends with this process.
  int state_fd_ = -1;
  std::uint32_t slot_ = 0;
  std::atomic<bool> abandoned_{false};
  // For each slot the kernel's last answer: 16 bits of generation, 47 of time in ms, 1 of "alive".
  std::array<std::atomic<std::uint64_t>, kMaxProcesses> liveness_{};
  Fifos fifos_;
  PortFiles port_files_;
  std::uint64_t wake_channel_ = 0;
  int wake_fd_ = -1;

  std::mutex parked_mutex_;
  std::vector<std::shared_ptr<Parkable>> parked_;
  std::size_t next_parked_ = 0;
  std::atomic<std::size_t> parked_count_{0};
  std::atomic<std::uint64_t> helper_due_ns_{0};  // when it wakes up; 0: there is no helper thread
  std::atomic<std::uint64_t> helper_{0};         // LockWord::this_thread() of the helper thread
  bool helper_started_ = false;

  Owed owed_;

  std::mutex metered_mutex_;
  std::vector<std::shared_ptr<Sender>> metered_;

  std::array<std::atomic<unsigned>, kObjectKinds> live_{};
};

/// The time of CLOCK_MONOTONIC in ns.
std::uint64_t now_ns() noexcept;

inline constexpr std::uint64_t kNever = ~std::uint64_t{0};

}  // namespace hbmwire::emulation::nic
