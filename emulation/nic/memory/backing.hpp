// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "emulation/common/export_descriptor.hpp"
#include "emulation/nic/state/shared_state.hpp"

namespace hbmwire::emulation::nic {

/// Registered memory that lies in a file (an emulated card's HBM, a memfd), mapped whole into this
/// process; or the ranges of such a file that an export's table names, mapped one after the other.
/// A process has one Backing for each such file or export. It lives as long as an MR or a sender's
/// cache holds it. The mapping of a file may stay longer, for its next registration.
class Backing {
 public:
  /// Takes ownership of `fd`. Returns null with errno on failure.
  static std::shared_ptr<Backing> of_fd(int fd, bool writable);

  /// As of_fd(), for a memfd that begins with an export descriptor with segments.
  static std::shared_ptr<Backing> of_segments(int fd, bool writable);

  Backing(const Backing&) = delete;
  Backing& operator=(const Backing&) = delete;
  Backing(Backing&&) = delete;
  Backing& operator=(Backing&&) = delete;
  ~Backing();

  [[nodiscard]] std::byte* base() const noexcept { return base_; }

  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }

  [[nodiscard]] int fd() const noexcept { return fd_; }

  /// The ranges of the card's memory that this backing consists of. Empty if it is the whole file.
  [[nodiscard]] const std::vector<ExportSegment>& segments() const noexcept { return segments_; }

 private:
  struct Mapped {
    std::byte* base = nullptr;
    std::vector<ExportSegment> segments;
  };

  Backing(int fd, Mapped mapped, std::uint64_t size, bool writable)
      : fd_(fd),
        base_(mapped.base),
        size_(size),
        writable_(writable),
        segments_(std::move(mapped.segments)) {}

  template <typename Map>
  static std::shared_ptr<Backing> find_or_map(int fd, bool writable, Map map);
  static Mapped map_segments(int fd, std::uint64_t size, bool writable);

  int fd_;
  std::byte* base_;
  std::uint64_t size_;
  bool writable_;
  std::vector<ExportSegment> segments_;
};

/// Stands for the dma-buf that an importer in the kernel would hold: one descriptor in this process
/// for all MRs of the same dma-buf. It lives as long as one of them.
class Reference {
 public:
  /// Returns null with errno on failure. `fd` stays the caller's.
  static std::shared_ptr<Reference> to(int fd);

  Reference(const Reference&) = delete;
  Reference& operator=(const Reference&) = delete;
  Reference(Reference&&) = delete;
  Reference& operator=(Reference&&) = delete;
  ~Reference();

 private:
  explicit Reference(int fd) : fd_(fd) {}

  int fd_;
};

/// The memory that the descriptor given to ibv_reg_dmabuf_mr() stands for.
struct Import {
  std::shared_ptr<Backing> backing;
  std::shared_ptr<Reference> reference;  // null: the backing is the dma-buf
  std::string posted_path;               // the file of the card's PostedWrites; empty: none
  std::uint64_t offset_bytes = 0;        // of the dma-buf's first byte in the backing file
  std::uint64_t length_bytes = 0;        // the dma-buf's size
};

/// Finds out what `fd` stands for: an O_PATH descriptor of an export descriptor
/// (emulation/docs/architecture.md), or a memfd or tmpfs file. Returns 0 or an errno: EBADF;
/// EOPNOTSUPP for a dma-buf of a real driver; EACCES if it is read-only and `writable` is set;
/// EINVAL for anything else.
int import_dmabuf(int fd, bool writable, Import& import);

}  // namespace hbmwire::emulation::nic
