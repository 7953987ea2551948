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

/// Whether the process has ended, also where its parent has not taken note of it (waitpid(2)). No,
/// where that can't be known.
[[nodiscard]] bool process_has_ended(std::uint32_t process) noexcept;

/// The memory keys of this process' host memory, as other processes of its node find them: those
/// copy bytes themselves (transport/shared/neighbour.hpp), and say meanwhile which key they are at.
/// Thread-safe.
class SharedKeys {
 public:
  /// Errors: Stage::allocate.
  static Result<std::unique_ptr<SharedKeys>> create();
  SharedKeys(const SharedKeys&) = delete;
  SharedKeys& operator=(const SharedKeys&) = delete;
  ~SharedKeys();

  [[nodiscard]] const SharedFileName& name() const noexcept { return keys_file_.name; }

  /// The hold that `owner` has claimed for an endpoint of this process, and told of, which no other
  /// endpoint has taken; null: none. It stays as long as this object.
  const SharedHold* take_hold(std::uint64_t owner, std::uint32_t endpoint) noexcept;

  [[nodiscard]] SharedHoldFile& holds() const noexcept { return *holds_; }

  /// A token to take for `random`, whose key has a place beside the others': so keys that come and
  /// go touch few pages.
  [[nodiscard]] std::uint64_t token_for(std::uint64_t random) noexcept;

  /// Others find the key of this token from here on, until remove() of the number that is returned;
  /// 0: they do not, since it is no host memory, or there is no place left.
  std::uint32_t add(std::uint64_t token, const ExportedMemory& memory);

  /// Nobody finds it any more; waits for those that are at it, but not for who has ended, and for
  /// who has stopped `patience` at most. `memory` is kept as long as one is at it. Errors:
  /// Errc::timed_out: one still is.
  Result<void> remove(std::uint32_t number, std::uint64_t token,
                      std::optional<ExportedMemory> memory, std::chrono::nanoseconds patience);

  /// Gives back what is kept and no longer used. May throw std::bad_alloc.
  void look();

 private:
  /// A key that has ended, and may still be used by another process.
  struct Kept {
    std::uint32_t number = 0;
    std::uint64_t token = 0;
    std::optional<ExportedMemory> memory;
    bool is_awaited = false;  // by remove()
  };

  SharedKeys() = default;

  void publish(SharedKeyEntry& entry, std::uint64_t token, const ExportedMemory& memory) noexcept;
  [[nodiscard]] bool is_held(std::uint32_t number) const noexcept;
  [[nodiscard]] bool is_taken(std::uint32_t place) const noexcept;
  bool close(std::uint32_t number, std::uint64_t token, std::optional<ExportedMemory> memory);

  std::uint64_t incarnation_ = incarnation();  // others look for it here
  SharedFile keys_file_;
  SharedFile holds_file_;
  SharedKeyFile* keys_ = nullptr;
  SharedHoldFile* holds_ = nullptr;
  std::mutex mutex_;  // of what follows
  // The state and token of each key, whatever the file says.
  std::vector<std::uint64_t> states_;
  std::vector<std::uint64_t> tokens_;
  std::uint32_t first_free_ = 0;  // none before it is
  std::vector<Kept> kept_;
  std::atomic<bool> keeps_{false};  // `kept_` may have some
};

}  // namespace hbmwire::detail
