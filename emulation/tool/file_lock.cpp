// SPDX-License-Identifier: MIT
#include "emulation/tool/file_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "emulation/tool/held_signals.hpp"

namespace hbmwire::emulation::tool {
namespace {

bool names_the_same_file(const std::filesystem::path& path, int fd) {
  struct stat named {};

  struct stat open {};

  return ::stat(path.c_str(), &named) == 0 && ::fstat(fd, &open) == 0 &&
         named.st_dev == open.st_dev && named.st_ino == open.st_ino;
}

int flock_patiently(int fd, int operation) {
  int rc = 0;
  do rc = ::flock(fd, operation);
  while (rc != 0 && errno == EINTR);
  return rc;
}

// Signals are blocked, so they would not interrupt a wait in the kernel. Therefore this polls.
int flock_until_signal(int fd) {
  constexpr auto kPause = std::chrono::milliseconds(2);
  while (true) {
    const int rc = flock_patiently(fd, LOCK_EX | LOCK_NB);
    if (rc == 0 || errno != EWOULDBLOCK) return rc;
    if (held_end() != 0) {
      errno = EINTR;
      return -1;
    }
    std::this_thread::sleep_for(kPause);
  }
}

int flock_exclusively(int fd, Wait wait) {
  if (wait == Wait::until_signal) return flock_until_signal(fd);
  return flock_patiently(fd, LOCK_EX | (wait == Wait::yes ? 0 : LOCK_NB));
}

// A number that does not disturb programs which expect 3, 4, 5..., but is below the default limit
// of 1024.
int high_fd_number() {
  struct rlimit limit {};

  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 3;
  constexpr rlim_t kHigh = 960;
  constexpr rlim_t kLocks = 32;  // more than a process holds, from kHigh on
  return limit.rlim_cur > kHigh + kLocks ? static_cast<int>(kHigh) : 3;
}

}  // namespace

void Fd::reset() noexcept {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

void Fd::unlock() const noexcept { ::flock(fd_, LOCK_UN); }

std::optional<Fd> lock_exclusively(const std::filesystem::path& path, Wait wait, bool create) {
  const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | (create ? O_CREAT : 0);
  while (true) {
    Fd fd{::open(path.c_str(), flags, 0600)};
    if (!fd) return std::nullopt;
    if (flock_exclusively(fd.get(), wait) != 0) return std::nullopt;
    // The previous holder may have removed the file during the wait. A new file of that name has
    // another inode.
    if (names_the_same_file(path, fd.get())) return fd;
  }
}

Result<Fd> hold_for_descendants(const std::filesystem::path& path) {
  // Reading suffices for a shared lock, so another user's file can be locked too.
  Fd fd{::open(path.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644)};
  if (!fd) return cannot("open " + path.string());
  if (flock_patiently(fd.get(), LOCK_SH) != 0) return cannot("lock " + path.string());
  Fd inherited{::fcntl(fd.get(), F_DUPFD, high_fd_number())};
  if (!inherited) return cannot("duplicate the lock of " + path.string());
  return inherited;
}

}  // namespace hbmwire::emulation::tool
