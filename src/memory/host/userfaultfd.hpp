// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <utility>

#include "hbmwire/error.hpp"
#include "hbmwire/fd.hpp"

#include "memory/host/address_range.hpp"

namespace hbmwire::memory::host {

/// The kernel's object that reports changes to the mappings of this process: userfaultfd(2),
/// ioctl_userfaultfd(2). Only its events are used; it traps no access. Many threads may use it, but
/// close() requires that no other thread does. Only unwatch() may allocate, if other memory has
/// replaced the watched pages.
class Userfaultfd {
 public:
  /// Errors: Stage::register_memory (the kernel has no userfaultfd(2), forbids it, or lacks one of
  /// the events: Hint::no_userfaultfd).
  static Result<Userfaultfd> open();

  /// Starts to report changes of these pages, which must all be anonymous or shared memory. Skips
  /// holes. Returns the errno, or 0. After EINVAL, EPERM and EBUSY nothing is watched.
  [[nodiscard]] int watch(AddressRange pages) const noexcept;

  /// Stops reporting, whatever lies there now. If it fails, the pages stay watched, and their next
  /// change costs an event that no caller needs.
  void unwatch(AddressRange pages) const noexcept;

  struct Event {
    enum class Kind : std::uint8_t {
      none,       ///< nothing, or not worth reporting
      gone,       ///< was unmapped
      moved,      ///< was moved: `moved_to` is watched now
      discarded,  ///< will lose its contents once this event is read
      lost,       ///< the descriptor does not work any more
    } kind = Kind::none;
    AddressRange range;
    std::uint64_t moved_to = 0;
  };

  /// Reads the next event, which lets the call that caused it continue. Does not wait.
  [[nodiscard]] Event read() const noexcept;

  /// Whether a call is changing pages and its event has not been read. The kernel counts such a
  /// call before it releases the lock under which an address becomes free. So a thread that gets
  /// the address finds the call counted (fs/userfaultfd.c, mmap_changing). Costs one system call.
  [[nodiscard]] bool change_under_way() const noexcept;

  /// For poll(2).
  [[nodiscard]] int descriptor() const noexcept { return fd_.get(); }

  /// Drops the descriptor without closing it: for a descriptor that was closed elsewhere, whose
  /// number may belong to another file by now.
  void abandon() noexcept { (void)fd_.release(); }

  /// Ends all watching; calls that wait for their event to be read continue.
  void close() noexcept { fd_.reset(); }

 private:
  explicit Userfaultfd(Fd fd) noexcept : fd_(std::move(fd)) {}

  Fd fd_;
};

}  // namespace hbmwire::memory::host
