// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>

#include "hbmwire/error.hpp"
#include "hbmwire/fd.hpp"

namespace hbmwire {

/// Tells another process of this machine where to find a SharedFile, and how to recognize it. Plain
/// bytes. Any process of the same user that has them may read and write the memory.
struct SharedFileName {
  std::uint32_t process = 0;               ///< the process id, in its own namespace
  std::uint32_t descriptor = 0;            ///< the descriptor in that process
  std::array<std::uint64_t, 2> mark = {};  ///< random; part of the name in memfd_create(2)

  bool operator==(const SharedFileName&) const = default;
};

/// Options of SharedFile::create().
struct SharedFileOptions {
  unsigned flags = 0;                      ///< more flags of memfd_create(2), for the page size
  std::array<std::uint64_t, 2> mark = {};  ///< SharedFileName::mark; zeros: random
  bool to_be_read_only = false;            ///< let_others_read_alone() will be called
};

/// A file of host memory. One process makes it, and others of the same user open it by a descriptor
/// of the first one (/proc/PID/fd, proc_pid_fd(5)). A process that has it mapped cannot lose it:
/// its length is sealed (F_SEAL_SHRINK, memfd_create(2)), and it lives as long as one of them holds
/// it.
struct SharedFile {
  Fd fd;  ///< others find the file by this one, as long as it is open
  SharedFileName name;

  /// Filled with zeros. `size_bytes` must be whole pages. Errors: Stage::allocate.
  static Result<SharedFile> create(std::uint64_t size_bytes, const SharedFileOptions& options = {});

  /// Later mappings are read-only (F_SEAL_FUTURE_WRITE, memfd_create(2)); existing ones stay
  /// writable. Errors: Stage::allocate (a kernel before 5.1).
  Result<void> let_others_read_alone() const;

  /// Opens a file that another process made, for mapping; read-only unless `writes`. `name` and
  /// `size_bytes` may come from an untrusted process: only a sealed file with this mark and this
  /// length is opened, made by a process of the same user. Never blocks. Errors (Stage::open):
  /// Errc::not_found, also if the two processes are in different PID namespaces;
  /// Errc::permission_denied if the kernel or this check keeps them apart.
  static Result<Fd> open(const SharedFileName& name, std::uint64_t size_bytes, bool writes = true);
};

}  // namespace hbmwire
