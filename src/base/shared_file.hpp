// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "hbmwire/error.hpp"
#include "hbmwire/fd.hpp"

namespace hbmwire {

/// Where another process of the machine finds a SharedFile, and how it knows it again. Plain bytes.
struct SharedFileName {
  std::uint32_t process = 0;               ///< its id, as its own processes see it
  std::uint32_t descriptor = 0;            ///< of that process
  std::array<std::uint64_t, 2> mark = {};  ///< random

  bool operator==(const SharedFileName&) const = default;
};

/// Host memory of one process that another of the same user maps, too, by a descriptor of the
/// first (/proc/PID/fd, proc_pid_fd(5)). Neither can take it from the other: its length is sealed
/// (F_SEAL_SHRINK, memfd_create(2)), and it is there as long as one of them has it. Move-only.
class SharedFile {
 public:
  static constexpr std::uint64_t kMostBytes = 64ULL << 20;

  /// At most kMostBytes, zeros. Errors: Stage::allocate.
  static Result<SharedFile> create(std::uint64_t size_bytes);

  /// What another process made. `name` and `size_bytes` may be a stranger's: nothing is mapped but
  /// a sealed file that a process of this one's user made so, of this length and with this mark.
  /// Blocks for nobody. Errors: Stage::open; Errc::not_found also where the two do not see each
  /// other's processes (another PID namespace), Errc::permission_denied where the kernel or this
  /// keeps them apart.
  static Result<SharedFile> open(const SharedFileName& name, std::uint64_t size_bytes);

  SharedFile(SharedFile&& other) noexcept;
  SharedFile& operator=(SharedFile&&) = delete;
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;
  ~SharedFile();

  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return bytes_; }

  /// Of one that this process made.
  [[nodiscard]] const SharedFileName& name() const noexcept { return name_; }

 private:
  SharedFile(Fd file, std::span<std::byte> bytes) noexcept;

  static Result<SharedFile> map(Fd file, std::uint64_t size_bytes, Stage stage);

  Fd file_;  // of who made it: others find it by that
  std::span<std::byte> bytes_;
  SharedFileName name_;
};

}  // namespace hbmwire
