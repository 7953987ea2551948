// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>

namespace hbmwire::emulation {

/// What NICs have written into a card's memory and the card's own engines do not see yet: file
/// `posted` of a card (emulation/docs/architecture.md), there in `--like-hardware=flush` alone.
///
/// The bytes themselves are in the card's memory, where every NIC finds them. Kept beside it is
/// what was there before, and that is what the engines read and write meanwhile. So writes arrive
/// by being forgotten, which is right at any time: whoever is killed at whatever point loses
/// nothing and leaves nothing that could not be undone. A range here always has its earlier content
/// here too.
///
/// Thread-safe, and among processes.
class PostedWrites {
 public:
  /// A range of the card's memory, and where it is mapped in this process.
  struct Range {
    std::uint64_t offset;
    std::uint64_t bytes;
    std::byte* memory;
  };

  /// Makes the file, for a card of `card_bytes`. False with errno.
  static bool create(const std::filesystem::path& path, std::uint64_t card_bytes);

  /// There is one for each file and process, as it is mapped whole. Null with errno.
  static std::shared_ptr<PostedWrites> open(const std::filesystem::path& path);

  ~PostedWrites();
  PostedWrites(const PostedWrites&) = delete;
  PostedWrites& operator=(const PostedWrites&) = delete;
  PostedWrites(PostedWrites&&) = delete;
  PostedWrites& operator=(PostedWrites&&) = delete;

  [[nodiscard]] int fd() const noexcept { return fd_; }

  /// NIC `nic` is about to write the range. A read of that NIC later pushes it out.
  void post(std::uint32_t nic, const Range& range);

  /// What the NIC has written so far arrives; what all of them have: for a vendor's own call that
  /// flushes, and when the card is given back.
  void arrive(std::uint32_t nic);
  void arrive_all();

  /// arrive_all(), and gives the memory back. Nobody uses the card.
  void clear();

  /// The card's engines.
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
