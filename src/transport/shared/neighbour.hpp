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

/// Host memory of another process of this node, which this process' CPU reads and writes
/// (docs/adr/0029): memory that it shares is mapped here, other memory the kernel copies
/// (process_vm_readv(2)). Each copy looks at the other process' key, and says meanwhile that it is
/// at it, so that the key's end is the end of all copies. One thread at a time.
class Neighbour {
 public:
  /// Bytes of one copy().
  static constexpr std::uint64_t kMostBytes = 512U << 10U;

  /// By the file of keys (SharedKeys) of a process whose incarnation() that is. `host`: a domain
  /// that opens its memory. `name` may be a stranger's word. Never blocks. Errors:
  /// Stage::open, as SharedFile::open(); Errc::not_supported: another build; Errc::exhausted.
  static Result<std::unique_ptr<Neighbour>> open(const SharedFileName& name, std::string peer,
                                                 std::shared_ptr<MemoryDomain> host);
  Neighbour(const Neighbour&) = delete;
  Neighbour& operator=(const Neighbour&) = delete;
  ~Neighbour();

  /// Tells an endpoint of the other process, by which ring this one sends to it. `ring` has to live
  /// until that has opened it.
  void tell_of_ring(std::uint32_t endpoint, const SharedFileName& ring) noexcept;

  /// Has the other process look at that ring.
  void ring_bell() noexcept {
    const std::uint32_t place = place_of_hold();
    const auto [word, bit] = detail::SharedHoldFile::bell_of(place);
    holds_->bells[word].fetch_or(bit);
  }

  /// By what copy() names the key of this token, from 1 on, as long as there is this key. Errors:
  /// Errc::permission_denied: there is no such key, or it has ended; Errc::not_supported: it is
  /// private memory, which the kernel does not let this process reach; as MemoryDomain::open_ipc().
  Result<std::uint32_t> find(std::uint64_t token);

  /// The same of the key at a place of its file; `token` is then that key's. `number`: from 1 on.
  Result<std::uint32_t> find_at(std::uint32_t number, std::uint64_t& token);

  /// Why the other process' private memory can't be reached; none: it can.
  [[nodiscard]] const std::optional<Error>& no_private() const noexcept { return no_private_; }

  struct Copy {
    std::byte* local = nullptr;
    std::uint64_t remote = 0;  ///< address at the other process
    std::uint64_t length_bytes = 0;
    bool gets = false;     ///< else puts
    bool guarded = false;  ///< `local` is the application's, and may be gone
  };

  /// The other process can't end the key of this token until let_go(). Errors:
  /// Errc::permission_denied: it has. let_go() follows all the same.
  Result<void> hold(std::uint32_t key, std::uint64_t token) noexcept;

  /// Copies by the key that is held; kMostBytes at most. The last 8 bytes of a put are written
  /// last. Errors, of Stage::post and Stage::copy: Errc::permission_denied: the key does not give
  /// that; Errc::invalid_argument: the range leaves it; Errc::peer_failed: the other process has
  /// ended; Hint::memory_gone.
  Result<void> copy_held(const Copy& what) noexcept;

  void let_go() noexcept { hold_->key.store(0, std::memory_order_release); }

  /// All three.
  Result<void> copy(std::uint32_t key, std::uint64_t token, const Copy& what) noexcept;

  /// Gives back what is mapped of keys that have ended.
  void look() noexcept;

 private:
  using Entry = detail::SharedKeyEntry;

  struct Key {
    const Entry* entry = nullptr;
    std::uint64_t state = 0;
    std::uint64_t token = 0;
    std::uint64_t address = 0;
    std::uint64_t length_bytes = 0;
    std::uint32_t place = 0;  // of `entry`, and 1
    Access access = Access::none;
    std::byte* mapped = nullptr;  // null: it is private memory
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
  bool claim(std::uint32_t place, std::uint64_t from) noexcept;
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
  detail::SharedHold* hold_ = nullptr;  // ours
  const Key* held_ = nullptr;           // by it
  Fd process_handle_;                   // pidfd_open(2), once private memory is copied
  std::optional<Error> no_private_;
  std::vector<Key> known_;
  MadeHere made_;
};

}  // namespace hbmwire::transport
