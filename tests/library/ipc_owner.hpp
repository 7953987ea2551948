// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "hbmwire/context.hpp"
#include "hbmwire/fd.hpp"
#include "hbmwire/memory_domain.hpp"

#include "helpers.hpp"

namespace hbmwire::test {

/// Options for memory that other processes open.
[[nodiscard]] MemoryOptions shareable(MemoryType type = MemoryType::host);

[[nodiscard]] std::vector<std::byte> contents(const Allocation& memory);

/// How often shared host memory is mapped here: this process' own, and what it has opened.
[[nodiscard]] std::size_t mapped_shared_files();

/// A process whose memory others open: it has pattern 1 in the range that it names. Made by fork(2)
/// before this one has opened anything.
class Owner {
 public:
  static constexpr std::uint64_t kBytes = (1U << 20U) + 4321;
  static constexpr std::uint64_t kOffset = 8192 + 5;
  static constexpr std::uint64_t kLength = kBytes - kOffset - 77;

  explicit Owner(MemoryType type);

  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;

  ~Owner() { kill(); }

  [[nodiscard]] IpcHandle handle() const;

  /// Whether `seed`'s pattern is in the range, and around it what was there.
  [[nodiscard]] bool has(unsigned seed) const;

  /// It frees the memory, and lives on.
  void free() const;

  void kill();

 private:
  pid_t pid_ = -1;
  Fd socket_;
};

}  // namespace hbmwire::test
