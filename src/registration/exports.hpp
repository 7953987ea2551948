// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "hbmwire/memory.hpp"
#include "hbmwire/memory_domain.hpp"
#include "hbmwire/nic.hpp"

#include "base/shared_file.hpp"

namespace hbmwire::detail {

struct ExportEntry;
struct ExportUse;

/// The memory that a memory key opens to movers in the process that packed the key. NICs do not
/// need this, because they have the key's MR. A device's engine does, and so does a CPU that
/// carries bytes between a peer and host memory of this process.
struct ExportedMemory {
  using Clock = std::chrono::steady_clock;

  Allocation allocation;  // kept until the key has ended
  std::uint64_t address = 0;
  std::uint64_t length_bytes = 0;
  Access access = Access::none;  // the accesses that peers have
  Path path = Path::host;        // the path by which this process's NICs reach it
  std::optional<Clock::time_point> expires = {};
};

/// The right to touch exported memory. Neither revocation nor the end of the key completes while a
/// hold exists. So hold it only while bytes move: while the CPU moves them, or until an engine is
/// done. Hand an engine's copy to watch(): a thread that ends the key then waits for the engine
/// itself, whichever thread that is. Between take() and the next step (watch(), or destroying the
/// hold), do not wait for anything and do not end a key of this process: either can deadlock.
///
/// Move-only; one thread at a time. In a child by fork(2) a hold of the parent is worth nothing.
class ExportHold {
 public:
  /// A hold on [address, address + length_bytes) of the key with this token. Errors (Stage::post):
  /// Errc::permission_denied (no such key, it has ended, or it does not give `needed`),
  /// Errc::invalid_argument (the range exceeds the key's).
  static Result<ExportHold> take(std::uint64_t token, Access needed, std::uint64_t address,
                                 std::uint64_t length_bytes);

  ExportHold(ExportHold&&) noexcept;
  ExportHold& operator=(ExportHold&&) = delete;
  ExportHold(const ExportHold&) = delete;
  ExportHold& operator=(const ExportHold&) = delete;

  /// Waits for the copy that it watches.
  ~ExportHold();

  /// Valid until watch(): once the engine is done, the key may end and release this memory.
  [[nodiscard]] const ExportedMemory& memory() const noexcept;

  /// Hands over the copy that an engine has begun, which is all that this hold still protects. Call
  /// it once.
  void watch(PendingCopy copy) noexcept;

  /// Like PendingCopy::poll(), for the copy that it watches, even if another thread has waited for
  /// it. Never blocks.
  Result<bool> poll();

 private:
  ExportHold(std::shared_ptr<ExportEntry> entry, std::unique_ptr<ExportUse> use) noexcept;

  std::shared_ptr<ExportEntry> entry_;  // null: moved from
  std::unique_ptr<ExportUse> use_;
};

/// Lets other processes of this node find all exports of host memory, present and future, by the
/// returned file (SharedKeys). A thread that ends a key waits for a stopped process at most the
/// longest `patience` that was ever passed. Errors: Stage::allocate.
Result<SharedFileName> share_exports(std::chrono::nanoseconds patience);

class SharedKeys;

/// The keys that share_exports() has made, which live as long as the process; null: none.
[[nodiscard]] SharedKeys* shared_exports() noexcept;

/// Exported memory: movers find it during the life of this object, until end(). Move-only; any
/// number of threads may call its functions.
class Export {
 public:
  Export() noexcept = default;
  explicit Export(ExportedMemory memory);
  Export(Export&&) noexcept = default;
  Export& operator=(Export&& other) noexcept;
  Export(const Export&) = delete;
  Export& operator=(const Export&) = delete;
  ~Export();

  /// Random (at least 50 bits) and never 0: ExportHold::take() finds the memory by it.
  [[nodiscard]] std::uint64_t token() const noexcept { return token_; }

  /// The number by which other processes of this node find it (SharedKeys::add()); 0: they do not.
  [[nodiscard]] std::uint32_t shared() const noexcept;

  /// The domain of the key with this token; null if there is no such key, or it has ended.
  static std::shared_ptr<MemoryDomain> domain_of(std::uint64_t token);

  /// Ends the key: the memory can no longer be found. Waits for the existing holds, of this process
  /// and others. After it returns, no hold reads or changes a byte. Does nothing in a child by
  /// fork(2). Errors: Errc::timed_out (another process uses the memory and has stopped: see
  /// share_exports(); the memory is kept until it goes on or ends). Unless `waits`, does not wait
  /// for other processes, but keeps the memory that they use.
  Result<void> end(bool waits = true) noexcept;

 private:
  std::uint64_t token_ = 0;
  std::shared_ptr<ExportEntry> entry_;
};

}  // namespace hbmwire::detail
