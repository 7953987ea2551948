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

/// A file that holds registered memory (an emulated card's HBM, a memfd), mapped whole into this
/// process; or the ranges of such a file that an export has a table of, mapped one after the other.
/// There is one for each file or such export and process; it lives for as long as an MR or a
/// sender's cache holds it, and a file's mapping may outlive it, for whoever registers it again.
class Backing {
 public:
  /// Takes `fd` over. Null with errno.
  static std::shared_ptr<Backing> of_fd(int fd, bool writable);

  /// The same of a memfd that begins with an export descriptor with segments.
  static std::shared_ptr<Backing> of_segments(int fd, bool writable);

  Backing(const Backing&) = delete;
  Backing& operator=(const Backing&) = delete;
  Backing(Backing&&) = delete;
  Backing& operator=(Backing&&) = delete;
  ~Backing();

  [[nodiscard]] std::byte* base() const noexcept { return base_; }

  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }

  [[nodiscard]] int fd() const noexcept { return fd_; }

  /// The ranges of the card's memory that it consists of; none: it is the whole file.
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

/// A dma-buf that an importer in the kernel would hold: one descriptor in this process, however
/// many MRs there are of it. It lives for as long as one of them.
class Reference {
 public:
  /// Null with errno. `fd` stays the caller's.
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

/// What ibv_reg_dmabuf_mr's descriptor stands for.
struct Import {
  std::shared_ptr<Backing> backing;
  std::shared_ptr<Reference> reference;  // null: the backing is the dma-buf
  std::string posted_path;               // of the card's PostedWrites, empty: none
  std::uint64_t offset_bytes = 0;        // of the dma-buf's first byte in the backing file
  std::uint64_t length_bytes = 0;        // the dma-buf's size
};

/// Follows `fd`: an O_PATH descriptor of an export descriptor (emulation/docs/architecture.md), or
/// a memfd or tmpfs file. Returns 0 or an errno: EBADF, EOPNOTSUPP for a dma-buf of a real driver,
/// EINVAL for anything else, EACCES for a read-only one that is to be written.
int import_dmabuf(int fd, bool writable, Import& import);

}  // namespace hbmwire::emulation::nic
