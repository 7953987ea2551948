// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hbmwire/fd.hpp"
#include "hbmwire/memory_domain.hpp"
#include "hbmwire/nic.hpp"

#include "base/forks.hpp"
#include "registration/shared_key_file.hpp"

namespace hbmwire::transport {

/// Host memory of another process on this node, which this process's CPU reads and writes
/// (docs/adr/0029). Shared memory is mapped here; the kernel copies private memory
/// (process_vm_readv(2)). Each copy checks the other process's key, and meanwhile publishes a hold
/// on it, so that no copy goes on after the key has ended. One thread at a time.
class Neighbour {
 public:
  /// The most bytes that one copy() may move.
  static constexpr std::uint64_t kMostBytes = 512U << 10U;

  /// Opens the file of keys (SharedKeys) of another process; its mark contains that process's
  /// incarnation(). `host` is a domain that opens its memory. `name` may come from an untrusted
  /// process. Never blocks. Errors (Stage::open): those of SharedFile::open(); Errc::not_supported
  /// (another build); Errc::exhausted.
  static Result<std::unique_ptr<Neighbour>> open(const SharedFileName& name, std::string peer,
                                                 std::shared_ptr<MemoryDomain> host);
  Neighbour(const Neighbour&) = delete;
  Neighbour& operator=(const Neighbour&) = delete;
  ~Neighbour();

  /// Tells an endpoint of the other process by which ring this one sends to it. `ring` must live
  /// until the other process has opened it.
  void tell_of_ring(std::uint32_t endpoint, const SharedFileName& ring) noexcept;

  /// Makes the other process look at the ring of tell_of_ring().
  void ring_bell() noexcept {
    const std::uint32_t place = place_of_hold();
    const auto [word, bit] = detail::SharedHoldFile::bell_of(place);
    holds_->bells[word].fetch_or(bit);
  }

  /// Returns the number by which copy() names the key with this token. It counts from 1, and is
  /// valid as long as the key. Errors: Errc::permission_denied (there is no such key, or it has
  /// ended); Errc::not_supported (private memory, which the kernel does not let this process
  /// reach); those of MemoryDomain::open_ipc().
  Result<std::uint32_t> find(std::uint64_t token);

  /// As find(), for the key at place `number` of its file, counted from 1; sets `token` to that of
  /// the key.
  Result<std::uint32_t> find_at(std::uint32_t number, std::uint64_t& token);

  /// The reason why the other process's private memory cannot be reached; no value if it can.
  [[nodiscard]] const std::optional<Error>& no_private() const noexcept { return no_private_; }

  /// The arguments of one copy.
  struct Copy {
    std::byte* local = nullptr;
    std::uint64_t remote = 0;  ///< address in the other process
    std::uint64_t length_bytes = 0;
    bool gets = false;     ///< else it puts
    bool guarded = false;  ///< `local` is the application's, and may be unmapped
  };

  /// Keeps the other process from ending the key until let_go(). Errors: Errc::permission_denied
  /// (it has ended already). Call let_go() even after an error.
  Result<void> hold(std::uint32_t key, std::uint64_t token) noexcept;

  /// Copies with the held key, at most kMostBytes. The last 8 bytes of a put are written last.
  /// Errors (Stage::post, Stage::copy): Errc::permission_denied (the key does not give this
  /// access); Errc::invalid_argument (the range exceeds the key's); Errc::peer_failed (the other
  /// process has ended); Hint::memory_gone.
  Result<void> copy_held(const Copy& what) noexcept;

  void let_go() noexcept { hold_->key.store(0, std::memory_order_release); }

  /// hold(), copy_held() and let_go() in one call.
  Result<void> copy(std::uint32_t key, std::uint64_t token, const Copy& what) noexcept;

  /// Unmaps the memory of keys that have ended.
  void look() noexcept;

 private:
  using Entry = detail::SharedKeyEntry;

  /// A key that was read from the other process's file, and the mapping of its memory.
  struct Key {
    const Entry* entry = nullptr;
    std::uint64_t state = 0;  // that of `entry` when it was read: if it differs, the key has ended
    std::uint64_t token = 0;
    std::uint64_t address = 0;
    std::uint64_t length_bytes = 0;
    std::uint32_t place = 0;  // place of `entry` plus 1
    Access access = Access::none;
    std::byte* mapped = nullptr;  // null: private memory
    std::unique_ptr<const Allocation> mapping = nullptr;
  };

  Neighbour(const SharedFileName& name, std::string peer, std::shared_ptr<MemoryDomain> host)
      : process_(name.process),
        incarnation_(name.mark[0]),
        peer_(std::move(peer)),
        host_(std::move(host)) {}

  [[nodiscard]] std::uint32_t place_of_hold() const noexcept {
    return static_cast<std::uint32_t>(hold_ - holds_->holds.data());
  }

  Result<void> map(const SharedFileName& name);
  Result<void> claim();
  bool claim(std::uint32_t place, std::uint64_t owner) noexcept;
  [[nodiscard]] Result<bool> is_its_process() const noexcept;
  void probe_private() noexcept;
  [[nodiscard]] const Entry* entry_of(std::uint64_t token) const noexcept;
  Result<std::uint32_t> number_of(const Entry& entry, std::uint64_t token);
  Result<Key> read(const Entry& entry, std::uint64_t token) const;
  [[nodiscard]] static bool is_good(const Key& key, const Copy& what) noexcept;
  [[nodiscard]] Result<void> check(const Key& key, const Copy& what) const noexcept;
  [[nodiscard]] Result<void> copy_guarded(const Key& key, const Copy& what) const noexcept;
  [[nodiscard]] Result<void> copy_private(const Copy& what) noexcept;
  [[nodiscard]] bool has_ended() noexcept;

  std::uint32_t process_;
  std::uint64_t incarnation_;
  std::string peer_;
  std::shared_ptr<MemoryDomain> host_;
  const detail::SharedKeyFile* keys_ = nullptr;
  detail::SharedHoldFile* holds_ = nullptr;
  detail::SharedHold* hold_ = nullptr;  // the hold of this object
  const Key* held_ = nullptr;           // the key that it holds
  Fd process_handle_;                   // pidfd_open(2), once private memory is copied
  std::optional<Error> no_private_;
  std::vector<Key> known_;
  MadeHere made_;
};

}  // namespace hbmwire::transport
