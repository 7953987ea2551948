// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>

namespace hbmwire::emulation {

/// The writes of NICs into a card's memory that the card's own engines do not see yet. They are in
/// the file `posted` of a card (emulation/docs/architecture.md), which exists only with
/// `--like-hardware=flush`.
///
/// The new bytes are in the card's memory, where every NIC finds them. This file keeps the earlier
/// bytes, and the engines read and write those until the writes arrive. So a write arrives when its
/// range is removed from this file. That is harmless at any time: if a process is killed at any
/// point, no data is lost and the state stays consistent. The earlier bytes of a range are stored
/// before the range is entered.
///
/// Thread-safe, also between processes.
class PostedWrites {
 public:
  /// A range of the card's memory, and its address in this process.
  struct Range {
    std::uint64_t offset;
    std::uint64_t bytes;
    std::byte* memory;
  };

  /// Creates the file for a card of `card_bytes`. Returns false with errno on failure.
  static bool create(const std::filesystem::path& path, std::uint64_t card_bytes);

  /// Opens the file. A process has one object for each file, because the whole file is mapped.
  /// Returns null with errno on failure.
  static std::shared_ptr<PostedWrites> open(const std::filesystem::path& path);

  ~PostedWrites();
  PostedWrites(const PostedWrites&) = delete;
  PostedWrites& operator=(const PostedWrites&) = delete;
  PostedWrites(PostedWrites&&) = delete;
  PostedWrites& operator=(PostedWrites&&) = delete;

  [[nodiscard]] int fd() const noexcept { return fd_; }

  /// Notes that NIC `nic` is about to write the range. A later read by that NIC pushes the write
  /// out.
  void post(std::uint32_t nic, const Range& range);

  /// Makes the writes of one NIC arrive, or those of all NICs: the latter for a vendor's call that
  /// flushes, and when the card is released.
  void arrive(std::uint32_t nic);
  void arrive_all();

  /// arrive_all(), and gives the memory back to the system. The card must not be in use.
  void clear();

  /// Accesses of the card's engines.
  void engine_reads(const Range& range, std::byte* to);
  void engine_writes(const Range& range, const std::byte* from);

 private:
  struct Table;

  PostedWrites(int fd, std::byte* base, std::uint64_t bytes);

  static std::shared_ptr<PostedWrites> map(int fd, std::uint64_t bytes);

  [[nodiscard]] std::byte* earlier(std::uint64_t offset) const;
  void forget(std::uint32_t nic);
  void keep_earlier(std::uint32_t nic, const Range& range);
  Range next_piece(const Range& range, bool& posted);

  int fd_;
  std::byte* base_;
  std::uint64_t bytes_;
  Table* table_;
};

}  // namespace hbmwire::emulation
