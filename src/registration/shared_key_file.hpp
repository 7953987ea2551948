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

/// Two files through which other processes of the node use the memory keys of a process
/// (docs/adr/0029). One holds the keys, for reading. The other holds the holds, in which other
/// processes say which key they are using. The other process may be another build: kSharedKeysMagic
/// changes with the layout.
namespace hbmwire::detail {

inline constexpr std::uint64_t kSharedKeysMagic = 0x68'62'6d'77'69'72'65'01;
inline constexpr std::uint32_t kSharedKeys = 16384;    ///< keys of a process
inline constexpr std::uint32_t kSharedKeyPlaces = 32;  ///< places in a row for a token
inline constexpr std::uint32_t kSharedHolds = 4096;    ///< endpoints of other processes

/// A key of host memory, as a sequence lock. Only its process writes it, in this order: `state` to
/// an even number, all other members, `state` to an odd number. A reader trusts what it has read
/// only if `state` was odd before, and is the same afterwards.
struct alignas(256) SharedKeyEntry {
  static constexpr std::size_t kHandleWords = (sizeof(IpcHandle) + 7) / 8;

  /// Odd: there is a key. Increases with each key that comes or goes.
  std::atomic<std::uint64_t> state;
  std::atomic<std::uint64_t> token;
  std::atomic<std::uint64_t> address;  ///< in its process
  std::atomic<std::uint64_t> length_bytes;
  std::atomic<std::uint32_t> access;
  std::atomic<std::uint32_t> is_shared;  ///< 1: others map it by `handle`; 0: private memory
  std::array<std::atomic<std::uint64_t>, kHandleWords> handle;  ///< the bytes of an IpcHandle

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

/// The file of keys. Other processes can map it read-only.
struct SharedKeyFile {
  std::uint64_t magic;
  /// The address at which its process has its incarnation(), in private memory: a reader proves
  /// with it that it reads this process.
  std::uint64_t address;
  SharedFileName holds;  ///< the other file
  std::array<SharedKeyEntry, kSharedKeys> keys;
};

/// SharedFileName::mark of the file of keys of a process.
[[nodiscard]] constexpr std::array<std::uint64_t, 2> shared_keys_mark(
    std::uint64_t incarnation) noexcept {
  return {incarnation, kSharedKeysMagic};
}

/// The key that an endpoint of another process is using: a thread that ends the key waits for it.
struct alignas(64) SharedHold {
  /// The value of `owner` for a process.
  [[nodiscard]] static std::uint64_t owner_of(std::uint32_t process,
                                              std::uint64_t incarnation) noexcept {
    return incarnation << 32U | process;
  }

  /// The id of the other process, below 32 bits of its incarnation(); 0: free.
  std::atomic<std::uint64_t> owner;
  std::atomic<std::uint32_t> key;  ///< place of the key plus 1; 0: none

  /// The endpoint of this process to which the hold belongs
  /// (wire::EndpointOffer::Shares::endpoint), and the ring from which it reads what the other
  /// process sends. Written before `told` becomes kTold.
  static constexpr std::uint32_t kTold = 1;
  static constexpr std::uint32_t kTaken = 2;  ///< taken by that endpoint
  std::atomic<std::uint32_t> told;
  std::atomic<std::uint32_t> endpoint;
  std::atomic<std::uint32_t> reaches_private;  ///< 1: the other process can copy private memory
  std::atomic<std::uint32_t> ring_descriptor;  ///< of the other process (transport/shared/ring.hpp)
  std::array<std::atomic<std::uint64_t>, 2> ring_mark;

  [[nodiscard]] std::uint32_t process() const noexcept {
    return static_cast<std::uint32_t>(owner.load());
  }
};

/// The file of holds. Any process that has it open may write anything, so nothing in it is
/// trusted. False entries can only delay the end of a key, and that delay is bounded.
struct SharedHoldFile {
  static constexpr std::size_t kWordBells = 64;

  /// The place of a hold's bell.
  struct Bell {
    std::size_t word;  ///< index in `bells`
    std::uint64_t bit;
  };

  [[nodiscard]] static constexpr Bell bell_of(std::size_t hold) noexcept {
    return {hold / kWordBells, std::uint64_t{1} << hold % kWordBells};
  }

  std::atomic<std::uint32_t> used;  ///< how many of `holds` were ever used
  /// A bit for each hold: its ring needs a look.
  alignas(64) std::array<std::atomic<std::uint64_t>, kSharedHolds / kWordBells> bells;
  std::array<SharedHold, kSharedHolds> holds;
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

}  // namespace hbmwire::detail
