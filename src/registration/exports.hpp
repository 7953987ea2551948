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

/// What a memory key opens, for those that move bytes in the process that packed it: not the NIC,
/// which has the key's MR, but a device's engine, or whoever carries bytes between a peer and host
/// memory of this process.
struct ExportedMemory {
  using Clock = std::chrono::steady_clock;

  Allocation allocation;  // kept until the key has ended
  std::uint64_t address = 0;
  std::uint64_t length_bytes = 0;
  Access access = Access::none;  // of peers
  Path path = Path::host;        // by which this process's NICs reach it
  std::optional<Clock::time_point> expires = {};
};

/// The right to touch exported memory: as long as one is there, neither revocation nor the end of
/// the key is over. So it is held for what is under way and no longer: while the CPU moves bytes,
/// or until an engine has. An engine's copy is given to it, and whoever ends the key waits for the
/// engine by itself, in whatever thread it is. Between take() and what follows (watch(), or the
/// hold's end) nothing is waited for and no key of this process is ended.
///
/// Move-only; one thread at a time. In a child by fork(2) a parent's is worth nothing.
class ExportHold {
 public:
  /// Of [address, address + length_bytes) of the key that has this token. Errors, of Stage::post:
  /// Errc::permission_denied (there is no such key, it has ended, or it does not give `needed`),
  /// Errc::invalid_argument (more than the key's range).
  static Result<ExportHold> take(std::uint64_t token, Access needed, std::uint64_t address,
                                 std::uint64_t length_bytes);

  ExportHold(ExportHold&&) noexcept;
  ExportHold& operator=(ExportHold&&) = delete;
  ExportHold(const ExportHold&) = delete;
  ExportHold& operator=(const ExportHold&) = delete;

  /// Waits for the copy that it watches.
  ~ExportHold();

  /// Until watch(): once an engine is done the key may end, and what it kept goes.
  [[nodiscard]] const ExportedMemory& memory() const noexcept;

  /// What an engine has begun with this memory, and all that goes on by this hold. Once.
  void watch(PendingCopy copy) noexcept;

  /// As PendingCopy::poll(), of what it watches, whoever has waited for it. Never blocks.
  Result<bool> poll();

 private:
  ExportHold(std::shared_ptr<ExportEntry> entry, std::unique_ptr<ExportUse> use) noexcept;

  std::shared_ptr<ExportEntry> entry_;  // null: moved from
  std::unique_ptr<ExportUse> use_;
};

/// Has other processes of this node find what is exported of host memory, now and later, by the
/// file that is returned (SharedKeys). Who ends a key waits for who has stopped at it as long as
/// the longest `patience` that was ever said. Errors: Stage::allocate.
Result<SharedFileName> share_exports(std::chrono::nanoseconds patience);

class SharedKeys;

/// The keys that share_exports() has made, as long as this process lives; null: none.
[[nodiscard]] SharedKeys* shared_exports() noexcept;

/// Memory that is exported as long as this lives and has not ended. Move-only; its functions may be
/// called from many threads.
class Export {
 public:
  Export() noexcept = default;
  explicit Export(ExportedMemory memory);
  Export(Export&&) noexcept = default;
  Export& operator=(Export&& other) noexcept;
  Export(const Export&) = delete;
  Export& operator=(const Export&) = delete;
  ~Export();

  /// Random, 50 bits at least, and never 0: by it ExportHold::take() finds it.
  [[nodiscard]] std::uint64_t token() const noexcept { return token_; }

  /// The number by which other processes of this node find it (SharedKeys::add()); 0: they do not.
  [[nodiscard]] std::uint32_t shared() const noexcept;

  /// Of the key that has this token; null: there is none, or it has ended.
  static std::shared_ptr<MemoryDomain> domain_of(std::uint64_t token);

  /// Nobody finds it any more; then waits for the holds that are there, this process' and others'.
  /// When it returns no byte changes, or is read, by one. In a child by fork(2) a parent's is left
  /// as it is. Errors: Errc::timed_out: another process is at it that does not go on
  /// (share_exports()); the memory is kept as long as it is. `waits`: for other processes; else the
  /// memory of one that is at it is kept.
  Result<void> end(bool waits = true) noexcept;

 private:
  std::uint64_t token_ = 0;
  std::shared_ptr<ExportEntry> entry_;
};

}  // namespace hbmwire::detail
