// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "hbmwire/error.hpp"

#include "base/incarnation.hpp"
#include "registration/exports.hpp"
#include "registration/shared_key_file.hpp"

namespace hbmwire::detail {

/// Whether the process has ended, even if its parent has not called waitpid(2) yet. Returns false
/// if that cannot be known.
[[nodiscard]] bool process_has_ended(std::uint32_t process) noexcept;

/// The memory keys of this process's host memory, for other processes of its node. These copy the
/// bytes themselves (transport/shared/neighbour.hpp), and meanwhile say which key they are using.
/// Thread-safe.
class SharedKeys {
 public:
  /// Errors: Stage::allocate.
  static Result<std::unique_ptr<SharedKeys>> create();
  SharedKeys(const SharedKeys&) = delete;
  SharedKeys& operator=(const SharedKeys&) = delete;
  ~SharedKeys();

  [[nodiscard]] const SharedFileName& name() const noexcept { return keys_file_.name; }

  /// Returns the hold that `owner` has claimed for this endpoint and announced, if no other
  /// endpoint has taken it; null if there is none. The hold lives as long as this object.
  const SharedHold* take_hold(std::uint64_t owner, std::uint32_t endpoint) noexcept;

  [[nodiscard]] SharedHoldFile& holds() const noexcept { return *holds_; }

  /// Turns `random` into a token whose key lies beside the others, so that keys that come and go
  /// touch few pages.
  [[nodiscard]] std::uint64_t token_for(std::uint64_t random) noexcept;

  /// Other processes find the key with this token from now on, until remove() of the returned
  /// number. Returns 0 if they do not find it, because it is not host memory or all its places are
  /// taken.
  std::uint32_t add(std::uint64_t token, const ExportedMemory& memory);

  /// Other processes no longer find the key. Waits for those that use it, but not for processes
  /// that have ended, and at most `patience` for processes that have stopped. `memory` is kept as
  /// long as one uses it. Errors: Errc::timed_out (one still does).
  Result<void> remove(std::uint32_t number, std::uint64_t token,
                      std::optional<ExportedMemory> memory, std::chrono::nanoseconds patience);

  /// Releases memory that was kept and is no longer used. May throw std::bad_alloc.
  void look();

 private:
  /// A key that has ended, but that another process may still use.
  struct Kept {
    std::uint32_t number = 0;
    std::uint64_t token = 0;
    std::optional<ExportedMemory> memory;
    bool is_awaited = false;  // a remove() is waiting
  };

  SharedKeys() = default;

  /// Writes all members of `entry` but its state.
  void publish(SharedKeyEntry& entry, std::uint64_t token, const ExportedMemory& memory) noexcept;
  [[nodiscard]] bool is_held(std::uint32_t number) const noexcept;
  [[nodiscard]] bool is_taken(std::uint32_t place) const noexcept;
  bool close(std::uint32_t number, std::uint64_t token, std::optional<ExportedMemory> memory);

  std::uint64_t incarnation_ = incarnation();  // other processes look for it here
  SharedFile keys_file_;
  SharedFile holds_file_;
  SharedKeyFile* keys_ = nullptr;
  SharedHoldFile* holds_ = nullptr;
  std::mutex mutex_;  // guards the members below
  // The state and token of each key. This process trusts these, not the file.
  std::vector<std::uint64_t> states_;
  std::vector<std::uint64_t> tokens_;
  std::uint32_t first_free_ = 0;  // all places before it are taken
  std::vector<Kept> kept_;
  std::atomic<bool> keeps_{false};  // `kept_` may have entries
};

}  // namespace hbmwire::detail
