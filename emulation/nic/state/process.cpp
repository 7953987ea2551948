// SPDX-License-Identifier: MIT
#include "emulation/nic/state/process.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <fstream>
#include <string>
#include <system_error>

#include "emulation/nic/state/allocation.hpp"
#include "emulation/nic/state/links.hpp"
#include "emulation/nic/state/null_with.hpp"
#include "emulation/nic/state/state_file.hpp"

namespace hbmwire::emulation::nic {
namespace {

// The only global of the plugin, because the interface of libibverbs has no place for it. It is
// written with g_joining held and read without.
std::atomic<Process*> g_process{nullptr};
std::mutex g_joining;

/// Takes flock on <fabric>/lock, so that only one process creates the state file.
class FabricLock {
 public:
  explicit FabricLock(const std::filesystem::path& fabric)
      : fd_(::open((fabric / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    // A process holds the lock for a moment, to join or leave, unless it was stopped.
    constexpr int kLongestMs = 10'000;
    for (int waited = 0; fd_ >= 0 && ::flock(fd_, LOCK_EX | LOCK_NB) != 0; ++waited) {
      if (waited == kLongestMs || (errno != EWOULDBLOCK && errno != EINTR)) {
        ::close(fd_);
        fd_ = -1;
        errno = EAGAIN;
      } else {
        ::usleep(1000);
      }
    }
  }

  FabricLock(const FabricLock&) = delete;
  FabricLock& operator=(const FabricLock&) = delete;
  FabricLock(FabricLock&&) = delete;
  FabricLock& operator=(FabricLock&&) = delete;

  ~FabricLock() {
    if (fd_ >= 0) ::close(fd_);
  }

  [[nodiscard]] bool held() const { return fd_ >= 0; }

 private:
  int fd_;
};

/// With Yama's ptrace_scope 1 only ancestors may access a process' memory, but the processes of a
/// fabric are siblings. So this process lets them.
void let_peers_reach_memory() {
  std::ifstream scope("/proc/sys/kernel/yama/ptrace_scope");
  int value = 0;
#ifdef PR_SET_PTRACER
  if (scope >> value && value == 1) ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
#endif
}

std::uint64_t coarse_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000 +
         static_cast<std::uint64_t>(now.tv_nsec) / 1000000;
}

}  // namespace

std::uint64_t now_ns() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000000000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

Process::Process(World world) : world_(std::move(world)), fifos_(world_.fabric / "processes") {}

Process* Process::current() noexcept { return g_process.load(std::memory_order_acquire); }

Process* Process::join() {
  const std::lock_guard guard(g_joining);
  if (Process* process = g_process.load()) return process;
  std::optional<World> world = World::from_environment();
  if (!world) return null_with(ENODEV);
  auto* process = new Process(std::move(*world));
  int error = process->map_state();
  if (error == 0) error = process->claim_slot();
  if (error == 0) error = process->attach_marks();
  if (error == 0) error = process->make_directory();
  if (error != 0) {
    // A Process has no destructor, because a working one is never destroyed. This one failed to
    // start.
    if (process->state_fd_ >= 0) ::close(process->state_fd_);
    if (process->base_ != nullptr) ::munmap(process->base_, kFileBytes);
    ::operator delete(process);
    return null_with(error);
  }
  process->shared_->processes[process->slot_].life.give();
  let_peers_reach_memory();
  watch_forks();
  g_process.store(process, std::memory_order_release);
  return process;
}

int Process::map_state() {
  const FabricLock lock(world_.fabric);
  if (!lock.held()) return errno;
  StateFile file;
  const int error = open_state(world_.fabric, file);
  state_fd_ = file.fd;
  base_ = file.base;
  shared_ = at<SharedState>(0);
  ThreadMarks::find(shared_->marks, base_);
  return error;
}

int Process::claim_slot() {
  const Allocation guard(*this);
  if (!guard.held()) return EAGAIN;
  std::uint32_t end = shared_->header.processes_end.load();
  for (std::uint32_t slot = 0; slot < end; ++slot) {
    if (shared_->processes[slot].claimed.load() != 0 && !lock_is_held(slot)) reap_locked(slot);
  }
  while (end != 0 && shared_->processes[end - 1].claimed.load() == 0) --end;
  for (std::uint32_t slot = 0; slot < kMaxProcesses; ++slot) {
    ProcessRecord& record = shared_->processes[slot];
    if (record.claimed.load() != 0) continue;

    struct flock lock {};

    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start = slot;
    lock.l_len = 1;
    if (::fcntl(state_fd_, F_OFD_SETLK, &lock) != 0) continue;
    slot_ = slot;
    record.pid.store(::getpid());
    record.wake_channel.store(0);
    record.poked.store(0);
    record.full_sources.store(0);
    for (auto& count : record.active) count.store(0);
    record.generation.fetch_add(1);
    shared_->header.processes_end.store(std::max(end, slot + 1));
    record.claimed.store(1);
    return 0;
  }
  return EMFILE;
}

/// Either all processes of a fabric have marks or none has, because a thread must be able to wait
/// for every other.
int Process::attach_marks() {
  Header& header = shared_->header;
  const std::uint32_t wanted = ThreadMarks::are_possible() ? Header::used : Header::unused;
  std::uint32_t decided = Header::undecided;
  header.marks.compare_exchange_strong(decided, wanted);
  if (header.marks.load() == Header::unused) return 0;
  return ThreadMarks::attach(slot_, shared_->processes[slot_].marks_end, header.next_id)
             ? 0
             : EOPNOTSUPP;
}

std::filesystem::path Process::directory_of(std::uint32_t slot) const {
  return world_.fabric / "processes" / std::to_string(slot);
}

int Process::make_directory() {
  std::error_code error;
  std::filesystem::remove_all(directory_of(slot_), error);
  if (::mkdir((world_.fabric / "processes").c_str(), 0700) != 0 && errno != EEXIST) return errno;
  return ::mkdir(directory_of(slot_).c_str(), 0700) != 0 ? errno : 0;
}

bool Process::lock_is_held(std::uint32_t slot) const noexcept {
  struct flock lock {};

  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = slot;
  lock.l_len = 1;
  return ::fcntl(state_fd_, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

bool Process::asked_alive(std::uint32_t slot) noexcept {
  constexpr std::uint64_t kTrustMs = 10;
  constexpr std::uint64_t kTimeMask = 0x7fff'ffff'ffff;  // liveness_ has 47 bits for the time
  const std::uint64_t generation = shared_->processes[slot].generation.load() & 0xffffU;
  const std::uint64_t now = coarse_ms() & kTimeMask;
  const std::uint64_t cached = liveness_[slot].load(std::memory_order_relaxed);
  if (cached >> 48U == generation && now - ((cached >> 1U) & kTimeMask) < kTrustMs) {
    return (cached & 1U) != 0;
  }
  const bool is_alive = shared_->processes[slot].claimed.load() != 0 && lock_is_held(slot);
  liveness_[slot].store(generation << 48U | now << 1U | (is_alive ? 1U : 0U),
                        std::memory_order_relaxed);
  return is_alive;
}

void Process::punch_hole(std::uint64_t offset, std::uint64_t bytes) noexcept {
  ::fallocate(state_fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
              static_cast<off_t>(bytes));
}

void Process::watch_forks() {
  static std::once_flag once;
  std::call_once(once,
                 [] { pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child); });
}

void Process::before_fork() { g_joining.lock(); }

void Process::after_fork_in_parent() { g_joining.unlock(); }

void Process::after_fork_in_child() {
  if (Process* process = g_process.exchange(nullptr)) process->abandon();
  g_joining.unlock();
}

void Process::abandon() noexcept {
  abandoned_.store(true);
  ThreadMarks::detach();
  ::close(state_fd_);  // only the child's reference to the OFD lock; the parent keeps it
  state_fd_ = -1;
}

}  // namespace hbmwire::emulation::nic
