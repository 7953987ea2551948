// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>

#include "hbmwire/error.hpp"
#include "hbmwire/fd.hpp"

namespace hbmwire {

/// Where another process of the machine finds a SharedFile, and how it knows it again. Plain bytes;
/// who has them may read and write the memory, if he is the same user.
struct SharedFileName {
  std::uint32_t process = 0;               ///< its id, as its own processes see it
  std::uint32_t descriptor = 0;            ///< of that process
  std::array<std::uint64_t, 2> mark = {};  ///< random; part of what memfd_create(2) called it

  bool operator==(const SharedFileName&) const = default;
};

/// How a SharedFile is made.
struct SharedFileOptions {
  unsigned flags = 0;  ///< further ones of memfd_create(2), for the size of its pages
  std::array<std::uint64_t, 2> mark = {};  ///< SharedFileName::mark; zeros: random
  bool to_be_read_only = false;            ///< let_others_read_alone() will be called
};

/// The file of host memory that one process makes, and others of the same user open by a descriptor
/// of the first (/proc/PID/fd, proc_pid_fd(5)). None can take it from who has it mapped: its length
/// is sealed (F_SEAL_SHRINK, memfd_create(2)), and it is there as long as one of them has it.
struct SharedFile {
  Fd fd;  ///< others find it by that, as long as it is open
  SharedFileName name;

  /// Zeros, of whole pages. Errors: Stage::allocate.
  static Result<SharedFile> create(std::uint64_t size_bytes, const SharedFileOptions& options = {});

  /// Whoever maps it from here on can't write to it (F_SEAL_FUTURE_WRITE, memfd_create(2)); who has
  /// it mapped, can. Errors: Stage::allocate (a kernel before 5.1).
  Result<void> let_others_read_alone() const;

  /// What another process made, to be mapped. `name` and `size_bytes` may be a stranger's: nothing
  /// is opened but a sealed file that a process of this one's user made so, with this mark and of
  /// this length. Blocks for nobody. Errors: Stage::open; Errc::not_found also where the two do not
  /// see each other's processes (another PID namespace), Errc::permission_denied where the kernel
  /// or this keeps them apart. `writes`: else for reading alone.
  static Result<Fd> open(const SharedFileName& name, std::uint64_t size_bytes, bool writes = true);
};

}  // namespace hbmwire
