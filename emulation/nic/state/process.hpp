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

/// This process as a member of its fabric: the mapped state, its slot and liveness, its event
/// FIFOs. Made when the first NIC is opened and kept until the process ends, never destroyed:
/// threads may still run at exit.
///
/// After fork() the child is not a member (man ibv_fork_init: only the parent goes on): its copy is
/// `abandoned`, verbs on inherited objects fail with EIO, and opening a device makes it a member of
/// its own.
class Process {
 public:
  /// Joins the fabric on first use. Null with errno when there is no world or it cannot be joined.
  static Process* join();

  /// Has fork(2) hold the lock of join(), in this process from now on.
  static void watch_forks();

  /// Null when no NIC was opened yet.
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

  /// Whether the process in `slot` lives. Where its sign of life does not say so the kernel is
  /// asked, at most every 10 ms.
  [[nodiscard, gnu::always_inline]] bool alive(std::uint32_t slot) noexcept {
    return slot == slot_ || shared_->processes[slot].life.is_given() || asked_alive(slot);
  }

  [[nodiscard]] std::int32_t pid_of(std::uint32_t slot) const noexcept {
    return shared_->processes[slot].pid.load(std::memory_order_relaxed);
  }

  /// Frees everything a dead process left. Takes Header::allocation. What a process that was
  /// stopped has in its hands is left to the next who comes. True: it was dead, and nothing is
  /// left.
  bool reap(std::uint32_t slot);

  /// A number that is used once in the life of the fabric.
  std::uint64_t new_id() noexcept { return shared_->header.next_id.fetch_add(1) + 1; }

  void punch_hole(std::uint64_t offset, std::uint64_t bytes) noexcept;

  [[nodiscard]] std::filesystem::path directory_of(std::uint32_t slot) const;

  Fifos& fifos() noexcept { return fifos_; }

  /// Makes the process in `slot` look at its parked requests.
  void poke(std::uint32_t slot) noexcept;

  LinkState links() noexcept { return {world_.fabric, *shared_, fifos_}; }

  PortFiles& port_files() noexcept { return port_files_; }

  /// Makes sysfs say what has been counted so far, but for requests in execution.
  void write_port_files();

  /// A sender whose traffic is to be collected.
  void add_metered(const std::shared_ptr<Sender>& sender);

  /// Makes the helper thread look at what it has to do, and starts it if need be.
  void wake_helper() noexcept;

  /// The same, but for the helper itself: what is due it asks for when it has looked at all.
  void wake_other_helper() noexcept;

  /// Held while one of this process' windows is bound or unbound and while an MR goes: an MR that a
  /// window is bound to stays. Nobody in an Activity takes it.
  std::mutex windows;

  // Requests that wait for something (queue/parking.cpp).
  void add_parked(const std::shared_ptr<Parkable>& parked);
  void remove_parked(const Parkable* parked);

  /// Has the helper thread look at them at `due_ns` at the latest.
  void wake_by(std::uint64_t due_ns) noexcept {
    if (due_ns < helper_due_ns_.load()) wake_other_helper();
  }

  /// The process ends.
  void end_parked();

  void progress_parked() {
    if (parked_count_.load(std::memory_order_relaxed) != 0 || owed_.any()) progress_all_parked();
  }

  /// Puts something off until it can be done (state/owed.hpp). Any lock may be held.
  void owe(Owed::Task task, std::uint64_t line = 0);

  /// Whether something is put off already that has to come before: then `task` is, too.
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
  int state_fd_ =
      -1;  // holds the OFD lock: closed in a child, so that the lock dies with this process alone
  std::uint32_t slot_ = 0;
  std::atomic<bool> abandoned_{false};
  std::array<std::atomic<std::uint64_t>, kMaxProcesses>
      liveness_{};  // generation | time in ms | alive
  Fifos fifos_;
  PortFiles port_files_;
  std::uint64_t wake_channel_ = 0;
  int wake_fd_ = -1;

  std::mutex parked_mutex_;
  std::vector<std::shared_ptr<Parkable>> parked_;
  std::size_t next_parked_ = 0;
  std::atomic<std::size_t> parked_count_{0};
  std::atomic<std::uint64_t> helper_due_ns_{0};  // until when it sleeps; 0: there is none
  std::atomic<std::uint64_t> helper_{0};         // LockWord::this_thread() of it
  bool helper_started_ = false;

  Owed owed_;

  std::mutex metered_mutex_;
  std::vector<std::shared_ptr<Sender>> metered_;

  std::array<std::atomic<unsigned>, kObjectKinds> live_{};
};

/// Nanoseconds of CLOCK_MONOTONIC.
std::uint64_t now_ns() noexcept;

inline constexpr std::uint64_t kNever = ~std::uint64_t{0};

}  // namespace hbmwire::emulation::nic
