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

/// The memory of an emulated GPU, which all processes of the node take ranges of: the file `hbm` of
/// its folder, and `state`, which says whose each range is.
///
/// A range that is given back, or whose process has died, is free again when the last reference to
/// the last dma-buf of it is gone, as the driver keeps memory for its importers. Whether one of
/// this process is gone the kernel tells (DeletionWatch); of a dead process, the descriptors of all
/// processes are looked through for it, so that one that is just on its way through a socket is
/// missed. That is found out when somebody wants memory, or to know how much is left.
///
/// Bytes that a process offers to others (share) are kept in the same way for whoever has attached
/// them, until that one detaches them or dies.
///
/// Thread-safe. Errors are negative errnos.
class GpuMemory {
 public:
  /// What is taken and given back at once: as drivers do, a multiple of 2 MiB.
  static constexpr std::uint64_t kGranule = 2ULL << 20U;

  using Range = ExportSegment;

  /// Null with errno.
  static std::unique_ptr<GpuMemory> open(const std::filesystem::path& directory);

  ~GpuMemory();
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;

  [[nodiscard]] std::uint64_t size_bytes() const { return size_bytes_; }

  /// What no process has.
  int free_bytes(std::uint64_t& bytes);

  /// `bytes` are rounded up to granules. -ENOMEM. Contents: zeros.
  int allocate(std::uint64_t bytes, Range& range);

  /// Exactly what allocate() gave.
  void free(const Range& range);

  /// A dma-buf of these ranges, in whole pages, in that order, all of them within ranges of this
  /// process. The descriptor, O_PATH and close-on-exec.
  int export_dmabuf(const char* name, std::span<const Range> ranges);

  /// Offers bytes within a range of this process to every process of the node.
  int share(const Range& range, ShareKey& key);

  /// From now on nobody can attach it. Whether somebody has it still: then nothing else may be put
  /// there yet (is_attached).
  bool unshare(const ShareKey& key);

  /// Whether any process has any of these bytes attached.
  bool is_attached(const Range& range);

  struct Attachment {
    Range range;
    std::uint64_t owner = 0;  ///< the process that offers it, told from any later one
    bool own = false;         ///< this process
    std::uint32_t slot = 0;
  };

  /// -ENOENT: nobody who lives offers such a thing.
  int attach(const ShareKey& key, Attachment& made);

  /// Exactly what attach() gave.
  void detach(const Attachment& attachment);

  /// This process's view of it, for what a GPU's own engines do by other means than below.
  [[nodiscard]] std::byte* at(std::uint64_t offset) const { return memory_ + offset; }

  /// Of the file, to map a part of it elsewhere.
  [[nodiscard]] int file() const { return hbm_; }

  /// The GPU's engines: what NICs wrote and nothing has flushed yet is not seen.
  void read(std::uint64_t offset, std::byte* to, std::uint64_t bytes) const;
  void write(std::uint64_t offset, const std::byte* from, std::uint64_t bytes) const;

  /// An engine's copy from `from`, which may be this memory, too, and overlap.
  void write_from(std::uint64_t offset, const GpuMemory& from, std::uint64_t from_offset,
                  std::uint64_t bytes) const;

  /// Whether what NICs write has to be flushed (`--like-hardware=flush`).
  [[nodiscard]] bool posts_writes() const { return posted_ != nullptr; }

  /// All that NICs have written is seen from now on.
  void flush() const;

  /// Of this process, for tests: ranges that it has, dma-bufs that are alive, what it offers to
  /// others, and what it has attached.
  std::uint64_t own_ranges();
  std::uint64_t own_exports();
  std::uint64_t own_shares();
  std::uint64_t own_attachments();

 private:
  GpuMemory() = default;

  bool map(const std::filesystem::path& directory);
  [[nodiscard]] ProcessId self() const;
  void sweep();
  bool attached(const Range& range);
  template <typename Slots>
  std::uint64_t count_own(Slots slots);  // asked for with the state's lock
  void note_gone_exports();
  void free_unused();
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

  std::mutex mutex_;  // before that of the state
  DeletionWatch watch_;
};

}  // namespace hbmwire::emulation
