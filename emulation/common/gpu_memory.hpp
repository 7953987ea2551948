// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>

#include "emulation/common/deletion_watch.hpp"
#include "emulation/common/export_descriptor.hpp"
#include "emulation/common/posted_writes.hpp"
#include "emulation/common/share_handle.hpp"

namespace hbmwire::emulation {

struct GpuMemoryState;
struct ProcessId;

/// The memory of an emulated GPU, which all processes of the node allocate from. It is the file
/// `hbm` in the GPU's folder. The file `state` says which process has which range.
///
/// A range is freed when its process gives it back or dies, but not before the last reference to
/// the last dma-buf of it is gone: the driver, too, keeps memory for its importers. For a dma-buf
/// of this process, the kernel tells when it is gone (DeletionWatch). For a dma-buf of a dead
/// process, the open descriptors of all processes are searched; a descriptor that is on its way
/// through a socket is missed. This search is made when a process allocates memory or asks how much
/// is free.
///
/// Bytes that a process shares with others are kept in the same way for a process that has attached
/// them, until it detaches them or dies.
///
/// Thread-safe. Errors are negative errnos.
class GpuMemory {
 public:
  /// Allocations are multiples of 2 MiB, as the drivers make them.
  static constexpr std::uint64_t kGranule = 2ULL << 20U;

  using Range = ExportSegment;

  /// Returns null with errno on failure.
  static std::unique_ptr<GpuMemory> open(const std::filesystem::path& directory);

  ~GpuMemory();
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;

  [[nodiscard]] std::uint64_t size_bytes() const { return size_bytes_; }

  /// Sets `bytes` to the amount that no process has.
  int free_bytes(std::uint64_t& bytes);

  /// Allocates `bytes`, rounded up to granules. The contents are zeros. Returns -ENOMEM if there is
  /// not enough.
  int allocate(std::uint64_t bytes, Range& range);

  /// Frees a range exactly as allocate() returned it.
  void free(const Range& range);

  /// Exports ranges of this process, in whole pages and in that order, as a dma-buf. Returns the
  /// descriptor, which is O_PATH and close-on-exec.
  int export_dmabuf(const char* name, std::span<const Range> ranges);

  /// Shares bytes within a range of this process with every process of the node.
  int share(const Range& range, ShareKey& key);

  /// Prevents further attachments. Returns whether a process may still have it attached: then the
  /// bytes must not be reused yet (is_attached).
  bool unshare(const ShareKey& key);

  /// Whether any process has any of these bytes attached.
  bool is_attached(const Range& range);

  struct Attachment {
    Range range;
    std::uint64_t owner = 0;  ///< identifies the sharing process, even if its number is reused
    bool own = false;         ///< this process is the owner
    std::uint32_t slot = 0;
  };

  /// Returns -ENOENT if no living process shares memory by that key.
  int attach(const ShareKey& key, Attachment& made);

  /// Detaches exactly what attach() has attached.
  void detach(const Attachment& attachment);

  /// This process's mapping of the memory, for engines that do not use the functions below.
  [[nodiscard]] std::byte* at(std::uint64_t offset) const { return memory_ + offset; }

  /// The descriptor of the file, to map a part of it elsewhere.
  [[nodiscard]] int file() const { return hbm_; }

  /// Reads and writes as the GPU's engines do: NICs' writes that were not flushed are not visible.
  void read(std::uint64_t offset, std::byte* to, std::uint64_t bytes) const;
  void write(std::uint64_t offset, const std::byte* from, std::uint64_t bytes) const;

  /// Copies from `from` as an engine does. If that is this memory too, the ranges may overlap.
  void write_from(std::uint64_t offset, const GpuMemory& from, std::uint64_t from_offset,
                  std::uint64_t bytes) const;

  /// Whether NICs' writes need a flush (`--like-hardware=flush`).
  [[nodiscard]] bool posts_writes() const { return posted_ != nullptr; }

  /// Makes all writes of NICs visible.
  void flush() const;

  /// The counts of this process, for tests: its ranges, its living dma-bufs, the ranges that it
  /// shares, and those that it has attached.
  std::uint64_t own_ranges();
  std::uint64_t own_exports();
  std::uint64_t own_shares();
  std::uint64_t own_attachments();

 private:
  GpuMemory() = default;

  bool map(const std::filesystem::path& directory);
  [[nodiscard]] ProcessId self() const;
  void sweep();
  bool is_attached_locked(const Range& range);
  template <typename Slots>
  std::uint64_t count_own(Slots slots);  // called with the state's lock held
  /// Gives back the slots of this process's dma-bufs that are gone.
  void note_gone_exports();
  /// Frees the ranges that were given back and that no export or attachment keeps.
  void free_unused();
  /// Gives a range's memory back to the system.
  void punch(const Range& range) const;
  int record_export(int watch, int memfd, std::span<const Range> ranges);

  std::string hbm_path_;
  std::string posted_path_;  // empty: there is none
  int hbm_ = -1;
  std::byte* memory_ = nullptr;
  std::uint64_t size_bytes_ = 0;
  std::shared_ptr<PostedWrites> posted_;
  GpuMemoryState* state_ = nullptr;
  std::int32_t process_ = 0;
  std::uint32_t started_ = 0;

  std::mutex mutex_;  // taken before the lock of the state
  DeletionWatch watch_;
};

}  // namespace hbmwire::emulation
