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

/// Options for memory that other processes can open.
[[nodiscard]] MemoryOptions shareable(MemoryType type = MemoryType::host);

[[nodiscard]] std::vector<std::byte> contents(const Allocation& memory);

/// The number of mappings of shared host memory in this process: its own memory, and opened memory.
[[nodiscard]] std::size_t mapped_shared_files();

/// A process whose memory other processes open. The range that it names contains pattern 1. It is
/// forked before this process opens anything.
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

  /// Whether the range contains the pattern of `seed`, and the bytes around it are unchanged.
  [[nodiscard]] bool has(unsigned seed) const;

  /// Frees the memory; the process lives on.
  void free() const;

  void kill();

 private:
  pid_t pid_ = -1;
  Fd socket_;
};

}  // namespace hbmwire::test
