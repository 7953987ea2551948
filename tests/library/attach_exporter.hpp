// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "hbmwire/attach.hpp"
#include "hbmwire/context.hpp"
#include "hbmwire/fd.hpp"
#include "hbmwire/memory_key.hpp"

#include "helpers.hpp"

namespace hbmwire::test {

constexpr std::uint64_t kAttachedBytes = 64 << 10;

/// Another process that owns and publishes memory, and executes commands. It is forked before the
/// test's own process opens anything, and killed with this object unless it has ended.
class Exporter {
 public:
  /// Makes the memory in the other process.
  using Make = std::function<Result<Allocation>(const Context&)>;

  /// Throws if the other process fails.
  explicit Exporter(MemoryType type);
  explicit Exporter(const Make& make);

  Exporter(const Exporter&) = delete;
  Exporter& operator=(const Exporter&) = delete;
  ~Exporter();

  [[nodiscard]] const AttachAddress& address() const noexcept { return address_; }

  /// The address of its memory in the other process.
  [[nodiscard]] std::uint64_t memory_address() const noexcept { return memory_address_; }

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }

  /// The byte that fills all of its memory, as that process sees it; -1 if the bytes differ.
  [[nodiscard]] int contents() const { return static_cast<int>(tell('c')); }

  void withdraw() const { static_cast<void>(tell('w')); }

  /// Releases the publication, the registration and the memory.
  void free_memory() const { static_cast<void>(tell('f')); }

  /// The number of its open descriptors.
  [[nodiscard]] int descriptors() const { return static_cast<int>(tell('d')); }

  void kill();

 private:
  [[nodiscard]] std::int64_t tell(char command) const;

  pid_t pid_ = -1;
  Fd socket_;
  AttachAddress address_;
  std::uint64_t memory_address_ = 0;
};

}  // namespace hbmwire::test
