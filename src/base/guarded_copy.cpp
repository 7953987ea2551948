// SPDX-License-Identifier: MIT
#include "base/guarded_copy.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>

#include "hbmwire/fd.hpp"

namespace hbmwire {

namespace {

// The kernel copies at most this much in one call (MAX_RW_COUNT), and stops there without an error.
constexpr std::size_t kMostAtOnce = std::size_t{1} << 30U;

/// Whether the process is forbidden to make these calls. Checked once: a seccomp filter never goes
/// away.
std::atomic<bool>& is_forbidden() noexcept {
  static std::atomic<bool> forbidden{false};  // relaxed: nothing else depends on it
  return forbidden;
}

iovec to_iovec(const std::byte* memory, std::size_t bytes) noexcept {
  return {.iov_base = const_cast<std::byte*>(memory), .iov_len = bytes};  // NOLINT: one is read
}

using Call = ssize_t (*)(pid_t, const iovec*, unsigned long, const iovec*, unsigned long,
                         unsigned long);

/// The number of bytes copied before the first that could not be copied; -1 if the call is
/// forbidden.
///
/// The application's memory is passed as the local side of the call. The kernel accesses that side
/// as the CPU does, so it may be a mapping of a device, whose pages cannot be pinned.
ssize_t copy_by(Call call, const std::byte* theirs, const std::byte* ours,
                std::size_t bytes) noexcept {
  const iovec here = to_iovec(theirs, bytes);
  const iovec there = to_iovec(ours, bytes);
  const ssize_t done = call(::getpid(), &here, 1, &there, 1, 0);
  if (done >= 0) return done;
  return errno == ENOSYS || errno == EPERM ? -1 : 0;
}

/// Copies through a pipe: write(2) and read(2) report EFAULT, too.
bool copy_by_pipe(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) return false;
  const Fd out(ends[0]);
  const Fd in(ends[1]);
  while (bytes != 0) {
    const ssize_t taken = ::write(in.get(), from, bytes);
    if (taken <= 0) return false;
    for (ssize_t given = 0; given != taken;) {
      const ssize_t part = ::read(out.get(), to + given, static_cast<std::size_t>(taken - given));
      if (part <= 0) return false;
      given += part;
    }
    from += taken;
    to += taken;
    bytes -= static_cast<std::size_t>(taken);
  }
  return true;
}

/// Copies out of the application's memory (`is_out`), by process_vm_writev(2), which reads the
/// local side, or into it, by process_vm_readv(2), which writes that side.
bool copy_guarded(Call call, std::byte* to, const std::byte* from, std::size_t bytes,
                  bool is_out) noexcept {
  while (bytes != 0 && !is_forbidden().load(std::memory_order_relaxed)) {
    const std::size_t part = std::min(bytes, kMostAtOnce);
    const ssize_t done = copy_by(call, is_out ? from : to, is_out ? to : from, part);
    if (done == 0) return false;
    if (done < 0) {
      is_forbidden().store(true, std::memory_order_relaxed);
      break;
    }
    from += done;
    to += done;
    bytes -= static_cast<std::size_t>(done);
  }
  return bytes == 0 || copy_by_pipe(to, from, bytes);
}

}  // namespace

bool copy_from_application(std::span<std::byte> ours, const std::byte* theirs) noexcept {
  return copy_guarded(::process_vm_writev, ours.data(), theirs, ours.size(), /*is_out=*/true);
}

bool copy_to_application(std::byte* theirs, std::span<const std::byte> ours) noexcept {
  return copy_guarded(::process_vm_readv, theirs, ours.data(), ours.size(), /*is_out=*/false);
}

bool can_read(const std::byte* theirs) noexcept {
  std::byte taken{};
  return copy_from_application({&taken, 1}, theirs);
}

/// Uses a futex(2) that adds 0 to the word and wakes no thread. It is the only call that writes to
/// the caller's memory without changing it, even while other threads write there.
bool can_write(std::byte* theirs) noexcept {
  std::uint32_t unwaited = 0;
  return ::syscall(SYS_futex, &unwaited, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 0, nullptr, theirs,
                   FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_EQ, 0)) >= 0 ||
         errno != EFAULT;
}

Error memory_gone(Stage stage, std::string_view subject) noexcept {
  return system_error(stage, "registered memory can't be reached any more", EFAULT, subject,
                      Hint::memory_gone);
}

}  // namespace hbmwire
