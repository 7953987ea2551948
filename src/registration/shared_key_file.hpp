// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "hbmwire/memory_domain.hpp"

#include "base/shared_file.hpp"

/// Two files with which other processes of the node use the memory keys of a process
/// (docs/adr/0029): the keys, for reading, and the holds, in which others say which key they are
/// at. Another process may be of another build: kSharedKeysMagic changes with the layout.
namespace hbmwire::detail {

inline constexpr std::uint64_t kSharedKeysMagic = 0x68'62'6d'77'69'72'65'01;
inline constexpr std::uint32_t kSharedKeys = 16384;    ///< keys of a process
inline constexpr std::uint32_t kSharedKeyPlaces = 32;  ///< where a token may lie: these in a row
inline constexpr std::uint32_t kSharedHolds = 4096;    ///< endpoints of other processes

/// A key of host memory. Written by its process alone, in this order: `state` to even, all else,
/// `state` to odd. Others take what they have read for a key's if `state` was odd before, and is
/// the same behind.
struct alignas(256) SharedKeyEntry {
  static constexpr std::size_t kHandleWords = (sizeof(IpcHandle) + 7) / 8;

  /// Odd: there is a key. It rises with each key that comes or goes.
  std::atomic<std::uint64_t> state;
  std::atomic<std::uint64_t> token;
  std::atomic<std::uint64_t> address;  ///< of its process
  std::atomic<std::uint64_t> length_bytes;
  std::atomic<std::uint32_t> access;
  std::atomic<std::uint32_t> is_shared;  ///< by `handle` others map it; else it is private memory
  std::array<std::atomic<std::uint64_t>, kHandleWords> handle;  ///< an IpcHandle's bytes

  void set_handle(const IpcHandle& of) noexcept {
    std::array<std::uint64_t, kHandleWords> words{};
    std::memcpy(words.data(), &of, sizeof of);
    for (std::size_t i = 0; i < kHandleWords; ++i)
      handle[i].store(words[i], std::memory_order_relaxed);
  }

  [[nodiscard]] IpcHandle get_handle() const noexcept {
    std::array<std::uint64_t, kHandleWords> words{};
    for (std::size_t i = 0; i < kHandleWords; ++i)
      words[i] = handle[i].load(std::memory_order_relaxed);
    IpcHandle told;
    std::memcpy(static_cast<void*>(&told), words.data(), sizeof told);
    return told;
  }
};

static_assert(std::is_trivially_copyable_v<IpcHandle> && sizeof(SharedKeyEntry) == 256);

/// The file of keys. Others can map it for reading alone.
struct SharedKeyFile {
  std::uint64_t magic;
  /// Where its process has its incarnation(), in memory that no other process has.
  std::uint64_t address;
  SharedFileName holds;  ///< the other file
  std::array<SharedKeyEntry, kSharedKeys> keys;
};

/// SharedFileName::mark of the file of keys of a process.
[[nodiscard]] constexpr std::array<std::uint64_t, 2> shared_keys_mark(
    std::uint64_t incarnation) noexcept {
  return {incarnation, kSharedKeysMagic};
}

/// Which key an endpoint of another process is at: who ends the key waits for it.
struct alignas(64) SharedHold {
  /// The value of `owner` for a process.
  [[nodiscard]] static std::uint64_t owner_of(std::uint32_t process,
                                              std::uint64_t incarnation) noexcept {
    return incarnation << 32U | process;
  }

  /// The id of the other process, and above it 32 bits of its incarnation(); 0: free.
  std::atomic<std::uint64_t> owner;
  std::atomic<std::uint32_t> key;  ///< the place of the key and 1; 0: none

  /// Which endpoint of this process it belongs to (wire::EndpointOffer::Shares::endpoint), and how
  /// that one reads what it sends: written before `told` is kTold.
  static constexpr std::uint32_t kTold = 1;
  static constexpr std::uint32_t kTaken = 2;  ///< by that endpoint
  std::atomic<std::uint32_t> told;
  std::atomic<std::uint32_t> endpoint;
  std::atomic<std::uint32_t> reaches_private;  ///< 1: the other process copies private memory
  std::atomic<std::uint32_t> ring_descriptor;  ///< of the other process (transport/shared/ring.hpp)
  std::array<std::atomic<std::uint64_t>, 2> ring_mark;

  [[nodiscard]] std::uint32_t process() const noexcept {
    return static_cast<std::uint32_t>(owner.load());
  }
};

/// The file of holds. Every process that has it open writes to it: nothing in it is trusted for
/// more than how long a key's end takes, which is bounded.
struct SharedHoldFile {
  static constexpr std::size_t kWordBells = 64;

  /// Where the bell of a hold is.
  struct Bell {
    std::size_t word;  ///< of `bells`
    std::uint64_t bit;
  };

  [[nodiscard]] static constexpr Bell bell_of(std::size_t hold) noexcept {
    return {hold / kWordBells, std::uint64_t{1} << hold % kWordBells};
  }

  std::atomic<std::uint32_t> used;  ///< of `holds`, from the first one on
  /// A bit for each hold: its ring is to be looked at.
  alignas(64) std::array<std::atomic<std::uint64_t>, kSharedHolds / kWordBells> bells;
  std::array<SharedHold, kSharedHolds> holds;
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

}  // namespace hbmwire::detail
