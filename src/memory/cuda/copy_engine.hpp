// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "hbmwire/memory.hpp"
#include "hbmwire/memory_domain.hpp"

#include "memory/cuda/driver.hpp"
#include "memory/pinned_ranges.hpp"

namespace hbmwire::memory::cuda {

/// Copies between host and GPU, and between GPUs, with the library's own stream. Pageable host
/// memory is a problem: the driver would copy it before the call returns, or wait for the GPU. So
/// the stream copies to or from a pinned buffer, and between its copies calls our function, which
/// moves the bytes between that buffer and the host memory. All of this runs in order and by
/// itself. Pinned memory is copied directly. Thread-safe. Its functions make the GPU's context
/// current themselves; polling a copy needs none.
class CopyEngine {
 public:
  CopyEngine(const Driver& driver, ContextHandle context, std::string gpu)
      : driver_(driver), context_(context), gpu_(std::move(gpu)) {}

  CopyEngine(const CopyEngine&) = delete;
  CopyEngine& operator=(const CopyEngine&) = delete;

  ~CopyEngine() { close(); }

  /// Implement MemoryDomain::pin_host() and unpin_host().
  Result<void> pin(std::span<std::byte> memory);
  void unpin(std::span<std::byte> memory) noexcept;

  /// Releases its resources, while the context still exists. No copy may be under way.
  void close() noexcept;

  Result<PendingCopy> start_in(std::uint64_t address, std::span<const std::byte> from);
  Result<PendingCopy> start_out(std::uint64_t address, std::span<std::byte> to);

  /// Copies from this GPU's memory, or another's, to this one's.
  Result<PendingCopy> start_between(std::uint64_t from, std::uint64_t to, std::uint64_t bytes);

 private:
  class Work;

  void unregister(std::span<std::byte> memory) noexcept;
  Result<void> make_stream();
  Result<void> make_bounce();

  /// `pieces`: how many moves `post` may post, not counting copies. Call it with the lock held, the
  /// stream made, and the context current.
  template <class Post>
  Result<PendingCopy> start(std::size_t pieces, Post post);

  /// One copy by the stream alone; `post` calls the driver.
  template <class Post>
  Result<PendingCopy> start_straight(const char* call, Post post);

  /// A copy in pieces through the pinned buffer; `post(work, offset, bytes)` posts one of them.
  template <class Post>
  Result<PendingCopy> start_by_bounce(std::size_t bytes, Post post);

  const Driver& driver_;
  ContextHandle context_;
  std::string gpu_;

  PinnedRanges pinned_;
  std::mutex mutex_;  // guards the stream and the buffer, which the first copy makes
  StreamHandle stream_ = nullptr;
  void* bounce_ = nullptr;
};

}  // namespace hbmwire::memory::cuda
