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

/// Copies between host and GPU, and between GPUs, by a stream of our own. The host's memory may be
/// pageable: the driver would copy such memory before it returns, or wait for the GPU. So the
/// stream goes by a pinned buffer, and calls a function of ours, which moves what is in it, in
/// between: all of that in order and by itself. What is pinned the stream copies at once.
/// Thread-safe. With the GPU's context current, but
/// for what it returns.
class CopyEngine {
 public:
  CopyEngine(const Driver& driver, ContextHandle context, std::string gpu)
      : driver_(driver), context_(context), gpu_(std::move(gpu)) {}

  CopyEngine(const CopyEngine&) = delete;
  CopyEngine& operator=(const CopyEngine&) = delete;

  ~CopyEngine() { close(); }

  /// MemoryDomain::pin_host() and unpin_host().
  Result<void> pin(std::span<std::byte> memory);
  void unpin(std::span<std::byte> memory) noexcept;

  /// Gives back what it has, while the context is still there. No copy goes on.
  void close() noexcept;

  Result<PendingCopy> start_in(std::uint64_t address, std::span<const std::byte> from);
  Result<PendingCopy> start_out(std::uint64_t address, std::span<std::byte> to);

  /// From this GPU's memory, or another's, to this one's.
  Result<PendingCopy> start_between(std::uint64_t from, std::uint64_t to, std::uint64_t bytes);

 private:
  class Work;

  void unregister(std::span<std::byte> memory) noexcept;
  Result<void> make_stream();
  Result<void> make_bounce();

  /// `pieces`: moves, at most, that `post` posts besides copies. With the lock held, the stream
  /// made and the context current.
  template <class Post>
  Result<PendingCopy> start(std::size_t pieces, Post post);

  /// One copy by the stream alone: `post` calls the driver.
  template <class Post>
  Result<PendingCopy> start_straight(const char* call, Post post);

  template <class Post>
  Result<PendingCopy> start_by_bounce(std::size_t bytes, Post post);

  const Driver& driver_;
  ContextHandle context_;
  std::string gpu_;

  PinnedRanges pinned_;
  std::mutex mutex_;  // one stream, one buffer: made by the first copy
  StreamHandle stream_ = nullptr;
  void* bounce_ = nullptr;
};

}  // namespace hbmwire::memory::cuda
