// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <utility>

#include "hbmwire/error.hpp"
#include "hbmwire/fd.hpp"

#include "memory/host/address_range.hpp"

namespace hbmwire::memory::host {

/// The kernel's object that tells what happens to the mappings of this process: userfaultfd(2),
/// ioctl_userfaultfd(2); here of its events alone, it traps no access. May be used by many threads,
/// but close() by one when nobody else uses it. Nothing of it allocates, but unwatch() where the
/// memory has been replaced by something else.
class Userfaultfd {
 public:
  /// Errors: Stage::register_memory: the kernel has no userfaultfd(2), forbids it or lacks one of
  /// the events; Hint::no_userfaultfd.
  static Result<Userfaultfd> open();

  /// Has changes of these pages told, which all must be of anonymous or shared memory. Holes in
  /// between are passed over. The errno, or 0. Nothing is watched after EINVAL, EPERM and EBUSY.
  [[nodiscard]] int watch(AddressRange pages) const noexcept;

  /// Has them told no longer, whatever lies there now. What goes wrong leaves pages watched, which
  /// costs their next change a message that nobody asked for.
  void unwatch(AddressRange pages) const noexcept;

  struct Event {
    enum class Kind : std::uint8_t {
      none,       ///< nothing happened, or it needs no telling
      gone,       ///< was unmapped
      moved,      ///< was moved: `moved_to` is watched now
      discarded,  ///< will lose its contents once this has been read
      lost,       ///< the descriptor is of no use any more
    } kind = Kind::none;
    AddressRange range;
    std::uint64_t moved_to = 0;
  };

  /// The next event, which lets the call go on that caused it. Does not wait.
  [[nodiscard]] Event read() const noexcept;

  /// Whether a call is changing pages whose event nobody has read. The kernel counts such a call
  /// before it lets go of the lock under which an address becomes free, so that whoever is given
  /// the address finds it counted (fs/userfaultfd.c, mmap_changing). One system call.
  [[nodiscard]] bool change_under_way() const noexcept;

  /// For poll(2).
  [[nodiscard]] int descriptor() const noexcept { return fd_.get(); }

  /// When somebody else has closed the descriptor, whose number may be another file's by now.
  void abandon() noexcept { (void)fd_.release(); }

  /// Ends all watching; calls that wait for their event to be read go on.
  void close() noexcept { fd_.reset(); }

 private:
  explicit Userfaultfd(Fd fd) noexcept : fd_(std::move(fd)) {}

  Fd fd_;
};

}  // namespace hbmwire::memory::host
