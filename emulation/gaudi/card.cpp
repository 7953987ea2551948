// SPDX-License-Identifier: MIT
#include "emulation/gaudi/card.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <ctime>
#include <fstream>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "emulation/common/posted_writes.hpp"
#include "emulation/gaudi/card_registry.hpp"

namespace hbmwire::emulation::gaudi {
namespace {

// Waits are short because a forked child may read the event that this process waits for.
constexpr int kExportPollMs = 20;

std::uint64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace

hl_device_status Card::status() const {
  std::ifstream file(identity_.sysfs / "status");
  std::string line;
  if (!std::getline(file, line)) return HL_DEVICE_STATUS_OPERATIONAL;
  if (line.starts_with("Operational") || line.starts_with("operational"))
    return HL_DEVICE_STATUS_OPERATIONAL;
  if (line.starts_with("in reset after device release"))
    return HL_DEVICE_STATUS_IN_RESET_AFTER_DEVICE_RELEASE;
  if (line.starts_with("in reset")) return HL_DEVICE_STATUS_IN_RESET;
  if (line.starts_with("needs reset")) return HL_DEVICE_STATUS_NEEDS_RESET;
  if (line.starts_with("in device creation")) return HL_DEVICE_STATUS_IN_DEVICE_CREATION;
  return HL_DEVICE_STATUS_MALFUNCTION;
}

std::string Card::posted_path() const {
  const auto path = identity_.directory / "posted";
  return ::access(path.c_str(), F_OK) == 0 ? path.string() : std::string{};
}

CardState* Card::state() {
  const std::lock_guard lock(process_mutex());
  if (!state_) state_ = CardState::attach((identity_.directory / "state").string());
  return state_.get();
}

int Card::check_backing_file() const {
  struct stat file {};

  if (::stat(hbm_path().c_str(), &file) != 0) return errno == ENOENT ? -ENXIO : -errno;
  return static_cast<std::uint64_t>(file.st_size) >= kind().hbm_bytes ? 0 : -ENXIO;
}

// Returns an fd that holds the card's only lock, or -EBUSY. The lock belongs to the open file
// description: it follows dup, fork and SCM_RIGHTS. The kernel drops it when the last of these is
// closed, even after a kill -9.
int Card::take_ownership() {
  const int fd = ::open((identity_.directory / "device").c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return -errno;
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  const int error = errno == EWOULDBLOCK ? EBUSY : errno;
  ::close(fd);
  return -error;
}

int Card::open_primary() {
  switch (status()) {
    case HL_DEVICE_STATUS_OPERATIONAL:
      break;
    case HL_DEVICE_STATUS_MALFUNCTION:
    case HL_DEVICE_STATUS_NEEDS_RESET:
      return -EPERM;
    default:
      return -EAGAIN;
  }
  const int fd = take_ownership();
  if (fd < 0) return fd;
  int error = check_backing_file();
  if (error == 0 && state() == nullptr) error = -errno;
  if (error == 0) {
    const StateLock content(*state_);
    wipe(*content);  // left by a killed owner
    watch_.stop();   // left by a plain close() in this process
    error = watch_.start();
    content->open_count += error == 0 ? 1 : 0;
    content->opened_ns = error == 0 ? now_ns() : 0;
  }
  if (error != 0) {
    ::close(fd);
    return error;
  }
  return fd;
}

// Opens the control node of a card. It can be opened any number of times and has no memory
// operations. Both nodes are the same file here. A control fd is recognised because it is open for
// reading only.
int Card::open_control() {
  const int fd = ::open((identity_.directory / "device").c_str(), O_RDONLY | O_CLOEXEC);
  return fd < 0 ? -errno : fd;
}

int Card::close(int fd) {
  const bool primary = (::fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR;
  if (!primary || state() == nullptr) return ::close(fd) == 0 ? 0 : -errno;
  bool busy = false;
  {
    const StateLock content(*state_);
    busy = collect_exports(*content) > 0;
    if (busy) {
      keep_busy(fd);
    } else {
      watch_.stop();
    }
  }
  const int error = ::close(fd) == 0 ? 0 : -errno;
  if (!busy) release_if_unowned();
  return error;
}

// In the driver, an exported dma-buf keeps the compute device's file open. Here a duplicate of the
// fd does so. A thread that exists only for this purpose closes it after the last export has ended.
// The caller holds the lock.
int Card::keep_busy(int fd) {
  if (keeper_ >= 0) return 0;
  const int keeper = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (keeper < 0) return -errno;
  keeper_ = keeper;
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // the application's signals are not for this thread
  int error = 0;
  try {
    std::thread([this] { wait_for_exports(); }).detach();
  } catch (const std::system_error& failure) {
    error = -failure.code().value();
    ::close(keeper_);
    keeper_ = -1;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return error;
}

void Card::wait_for_exports() {
  for (;;) {
    pollfd events{.fd = -1, .events = POLLIN, .revents = 0};
    {
      const StateLock content(*state_);
      if (collect_exports(*content) == 0) {
        watch_.stop();
        ::close(std::exchange(keeper_, -1));
        break;
      }
      events.fd = watch_.fd();
    }
    ::poll(&events, 1, kExportPollMs);
  }
  release_if_unowned();
}

void Card::after_fork_in_child() {
  if (keeper_ < 0) return;
  ::close(keeper_);
  keeper_ = -1;
}

// Only the kernel knows whether that was the owner's last fd, so this tries to take the lock.
void Card::release_if_unowned() {
  const int fd = take_ownership();
  if (fd < 0) return;
  {
    const StateLock content(*state_);
    if (content->opened_ns != 0) content->last_period_ns = now_ns() - content->opened_ns;
    content->opened_ns = 0;
    wipe(*content);
  }
  ::close(fd);
}

void Card::wipe(StateContent& content) {
  clear_content(content);
  punch(0, kind().hbm_bytes);
  if (const auto posted = PostedWrites::open(posted_path())) posted->clear();
}

// Gives memory back to the machine. HBM that is allocated again reads as zeros here, but
// applications must not rely on that.
void Card::punch(std::uint64_t offset, std::uint64_t bytes) const {
  const int fd = ::open(hbm_path().c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  ::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
              static_cast<off_t>(bytes));
  ::close(fd);
}

}  // namespace hbmwire::emulation::gaudi
