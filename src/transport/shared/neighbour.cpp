// SPDX-License-Identifier: MIT
#include "transport/shared/neighbour.hpp"

#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include "base/fences.hpp"
#include "base/guarded_copy.hpp"
#include "base/incarnation.hpp"
#include "registration/shared_keys.hpp"

namespace hbmwire::transport {

namespace {

using detail::SharedHold;
using detail::SharedHoldFile;
using detail::SharedKeyFile;

constexpr auto kRelaxed = std::memory_order_relaxed;

tl::unexpected<Error> refuse(Errc code, const char* why, std::string_view peer,
                             Hint hint = Hint::none) {
  return tl::make_unexpected(make_error(code, Stage::post, why, peer, hint));
}

/// Writes the last 8 bytes of a put last, so that a peer that sees them finds the whole put.
void put_mapped(std::byte* there, const std::byte* here, std::uint64_t length) noexcept {
  constexpr std::uint64_t kWord = sizeof(std::uint64_t);
  // Earlier writes must be visible before the writes below.
  release_fence();
  if (length < kWord) {
    std::memcpy(there, here, length);
    return;
  }
  const std::uint64_t before = length - kWord;
  if (before != 0) {
    std::memcpy(there, here, before);
    release_fence();
  }
  std::memcpy(there + before, here + before, kWord);
}

void copy_mapped(std::byte* there, const Neighbour::Copy& what) noexcept {
  if (what.gets) {
    std::memcpy(what.local, there, what.length_bytes);
  } else {
    put_mapped(there, what.local, what.length_bytes);
  }
}

template <class File>
Result<File*> map_file(const SharedFileName& name, bool writes) {
  HBMWIRE_TRY_ASSIGN(const Fd file, SharedFile::open(name, sizeof(File), writes));
  const int protection = writes ? PROT_READ | PROT_WRITE : PROT_READ;
  void* const memory = ::mmap(nullptr, sizeof(File), protection, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED)
    return tl::make_unexpected(system_error(Stage::open, "mmap", errno, "shared keys"));
  return static_cast<File*>(memory);
}

/// Copies to or from another process's private memory. Errors: those of the kernel.
Result<void> copy_across(std::uint32_t process, const Neighbour::Copy& what) noexcept {
  const iovec here{.iov_base = what.local, .iov_len = what.length_bytes};
  const iovec there{.iov_base = std::bit_cast<void*>(what.remote), .iov_len = what.length_bytes};
  const auto pid = static_cast<pid_t>(process);
  const ssize_t done = what.gets ? ::process_vm_readv(pid, &here, 1, &there, 1, 0)
                                 : ::process_vm_writev(pid, &here, 1, &there, 1, 0);
  if (done >= 0 && static_cast<std::uint64_t>(done) == what.length_bytes) return {};
  // A copy that ended early has come to memory that is not mapped.
  return tl::make_unexpected(system_error(Stage::copy,
                                          what.gets ? "process_vm_readv" : "process_vm_writev",
                                          done < 0 ? errno : EFAULT));
}

}  // namespace

Result<std::unique_ptr<Neighbour>> Neighbour::open(const SharedFileName& name, std::string peer,
                                                   std::shared_ptr<MemoryDomain> host) {
  std::unique_ptr<Neighbour> made(new Neighbour(name, std::move(peer), std::move(host)));
  HBMWIRE_TRY(made->map(name));
  HBMWIRE_TRY(made->claim());
  made->probe_private();
  return made;
}

Neighbour::~Neighbour() {
  // A child by fork(2) has a copy of this, but the hold belongs to its parent.
  if (hold_ != nullptr && !made_.is_inherited()) {
    hold_->told.store(0);
    hold_->owner.store(0);
  }
  if (holds_ != nullptr) ::munmap(holds_, sizeof *holds_);
  if (keys_ != nullptr) ::munmap(const_cast<SharedKeyFile*>(keys_), sizeof *keys_);  // NOLINT
}

Result<void> Neighbour::map(const SharedFileName& name) {
  HBMWIRE_TRY_ASSIGN(keys_, map_file<const SharedKeyFile>(name, /*writes=*/false));
  if (keys_->magic != detail::kSharedKeysMagic) {
    return tl::make_unexpected(make_error(Errc::not_supported, Stage::open,
                                          "the peer's build shares memory in another way", peer_,
                                          Hint::other_version));
  }
  HBMWIRE_TRY_ASSIGN(holds_, map_file<SharedHoldFile>(keys_->holds, /*writes=*/true));
  return {};
}

/// Claims the hold at `place`, if it still belongs to `owner`.
bool Neighbour::claim(std::uint32_t place, std::uint64_t owner) noexcept {
  SharedHold& hold = holds_->holds[place];
  const auto own = SharedHold::owner_of(static_cast<std::uint32_t>(::getpid()), incarnation());
  if (!hold.owner.compare_exchange_strong(owner, own)) return false;
  hold.told.store(0);
  hold.key.store(0);
  // The other process looks only at holds below `used`.
  std::uint32_t used = holds_->used.load();
  while (used <= place && !holds_->used.compare_exchange_weak(used, place + 1)) {
  }
  hold_ = &hold;
  return true;
}

/// Claims a free hold, or if there is none, one of a process that has ended.
Result<void> Neighbour::claim() {
  for (const bool takes_over : {false, true}) {
    for (std::uint32_t place = 0; place < detail::kSharedHolds; ++place) {
      const SharedHold& hold = holds_->holds[place];
      const std::uint64_t owner = hold.owner.load();
      const bool left = takes_over && detail::process_has_ended(static_cast<std::uint32_t>(owner));
      if ((owner == 0 || left) && claim(place, owner)) return {};
    }
  }
  return tl::make_unexpected(make_error(Errc::exhausted, Stage::open,
                                        "4096 endpoints of other processes use its memory", peer_));
}

void Neighbour::tell_of_ring(std::uint32_t endpoint, const SharedFileName& ring) noexcept {
  hold_->endpoint.store(endpoint, kRelaxed);
  hold_->reaches_private.store(no_private_ ? 0 : 1, kRelaxed);
  hold_->ring_descriptor.store(ring.descriptor, kRelaxed);
  for (std::size_t i = 0; i < ring.mark.size(); ++i)
    hold_->ring_mark[i].store(ring.mark[i], kRelaxed);
  hold_->told.store(SharedHold::kTold, std::memory_order_release);
}

/// Whether the process with this number is still the one that made these keys: only that one has
/// its incarnation at the address that the keys tell. Errors: those of the kernel.
Result<bool> Neighbour::is_its_process() const noexcept {
  std::uint64_t incarnation = 0;
  HBMWIRE_TRY(copy_across(process_, {.local = reinterpret_cast<std::byte*>(&incarnation),
                                     .remote = keys_->address,
                                     .length_bytes = sizeof incarnation,
                                     .gets = true}));
  return incarnation == incarnation_;
}

/// Finds out whether the kernel lets this process access the other one's unmapped memory: it does
/// not for another user's processes, and kernel.yama.ptrace_scope may forbid it.
void Neighbour::probe_private() noexcept {
  const auto is_its = is_its_process();
  if (!is_its) {
    no_private_ = is_its.error();
  } else if (!*is_its) {
    no_private_ = make_error(Errc::permission_denied, Stage::open,
                             "the peer's memory is not where it says", peer_);
  }
}

const Neighbour::Entry* Neighbour::entry_of(std::uint64_t token) const noexcept {
  for (std::uint32_t i = 0; i < detail::kSharedKeyPlaces; ++i) {
    const Entry& entry = keys_->keys[(token + i) % detail::kSharedKeys];
    // The entry has a key while `state` is odd.
    if (entry.state.load(std::memory_order_acquire) % 2 != 0 && entry.token.load(kRelaxed) == token)
      return &entry;
  }
  return nullptr;
}

Result<Neighbour::Key> Neighbour::read(const Entry& entry, std::uint64_t token) const {
  // SharedKeyEntry is a sequence lock: these reads count only if `state` is odd and the same
  // afterwards.
  Key key{.entry = &entry, .token = token};
  key.state = entry.state.load(std::memory_order_acquire);
  key.address = entry.address.load(kRelaxed);
  key.length_bytes = entry.length_bytes.load(kRelaxed);
  key.access = static_cast<Access>(entry.access.load(kRelaxed));
  key.place = static_cast<std::uint32_t>(&entry - keys_->keys.data()) + 1;
  const bool is_shared = entry.is_shared.load(kRelaxed) != 0;
  const IpcHandle handle = entry.get_handle();
  const bool is_it = entry.token.load(kRelaxed) == token;
  acquire_fence();
  if (!is_it || key.state % 2 == 0 || entry.state.load(kRelaxed) != key.state)
    return refuse(Errc::permission_denied, "the key has ended", peer_, Hint::memory_key_expired);
  if (!is_shared && no_private_) return tl::make_unexpected(*no_private_);
  if (!is_shared) return key;
  if (handle.length_bytes != key.length_bytes)
    return refuse(Errc::protocol, "the peer's key is malformed", peer_, Hint::other_version);
  HBMWIRE_TRY_ASSIGN(const Allocation opened, host_->open_ipc(handle));
  key.mapping = std::make_unique<const Allocation>(opened);
  key.mapped = std::bit_cast<std::byte*>(key.mapping->address());
  return key;
}

Result<std::uint32_t> Neighbour::find(std::uint64_t token) {
  const Entry* const entry = entry_of(token);
  if (entry != nullptr) return number_of(*entry, token);
  return refuse(Errc::permission_denied, "the key has ended", peer_, Hint::memory_key_expired);
}

Result<std::uint32_t> Neighbour::find_at(std::uint32_t number, std::uint64_t& token) {
  if (number == 0 || number > detail::kSharedKeys)
    return refuse(Errc::invalid_argument, "there is no such key", peer_);
  const Entry& entry = keys_->keys[number - 1];
  token = entry.token.load(kRelaxed);
  return number_of(entry, token);
}

Result<std::uint32_t> Neighbour::number_of(const Entry& entry, std::uint64_t token) {
  const auto is_there = [](const Key& key) { return key.entry->state.load(kRelaxed) == key.state; };
  const auto number_at = [&](auto key) {
    return static_cast<std::uint32_t>(key - known_.begin()) + 1;
  };
  const auto known = std::ranges::find_if(known_, [&](const Key& key) {
    return key.entry == &entry && key.token == token && is_there(key);
  });
  if (known != known_.end()) return number_at(known);
  HBMWIRE_TRY_ASSIGN(Key key, read(entry, token));
  // Reuses the number of a key that has ended. That is safe, because callers name a key by its
  // token, too.
  const auto ended = std::ranges::find_if_not(known_, is_there);
  if (ended != known_.end()) {
    *ended = std::move(key);
    return number_at(ended);
  }
  known_.push_back(std::move(key));
  return static_cast<std::uint32_t>(known_.size());
}

/// Whether check() would succeed.
bool Neighbour::is_good(const Key& key, const Copy& what) noexcept {
  const std::uint64_t offset = what.remote - key.address;
  return has(key.access, what.gets ? Access::remote_read : Access::remote_write) &&
         what.remote >= key.address && offset <= key.length_bytes &&
         what.length_bytes <= key.length_bytes - offset;
}

Result<void> Neighbour::check(const Key& key, const Copy& what) const noexcept {
  if (is_good(key, what)) return {};
  if (!has(key.access, what.gets ? Access::remote_read : Access::remote_write)) {
    return refuse(Errc::permission_denied, "the key does not give this access", peer_,
                  Hint::memory_key_access);
  }
  return refuse(Errc::invalid_argument, "the range leaves the key's", peer_);
}

Result<void> Neighbour::copy_guarded(const Key& key, const Copy& what) const noexcept {
  std::byte* const there = key.mapped + (what.remote - key.address);
  const bool whole = what.gets ? copy_to_application(what.local, {there, what.length_bytes})
                               : copy_from_application({there, what.length_bytes}, what.local);
  if (whole) return {};
  return tl::make_unexpected(memory_gone(Stage::copy, peer_));
}

/// Whether the other process has ended. Its number may belong to a new process by now, which must
/// not be written to.
bool Neighbour::has_ended() noexcept {
  if (!process_handle_) {
    Fd handle(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(process_), 0)));
    // The number may have been reused before the handle was opened, so the process is checked once
    // more.
    const auto is_its = is_its_process();
    // No process has the number, or one without memory at that address.
    const bool is_gone =
        !is_its && (is_its.error().number == ESRCH || is_its.error().number == EFAULT);
    if (is_gone || (is_its && !*is_its)) return true;
    process_handle_ = std::move(handle);
    if (!process_handle_) return false;  // no descriptor is left: the next copy tries again
  }
  pollfd end{process_handle_.get(), POLLIN, 0};
  return ::poll(&end, 1, 0) > 0;
}

Result<void> Neighbour::copy_private(const Copy& what) noexcept {
  // ESRCH: as if the kernel had found no such process.
  const auto copied = has_ended() ? Result<void>(tl::make_unexpected(Error{.number = ESRCH}))
                                  : copy_across(process_, what);
  if (copied) return {};
  if (copied.error().number == EFAULT) return tl::make_unexpected(memory_gone(Stage::copy, peer_));
  if (copied.error().number == ESRCH)
    return refuse(Errc::peer_failed, "the peer's process has ended", peer_, Hint::peer_gone);
  return copied;
}

Result<void> Neighbour::hold(std::uint32_t number, std::uint64_t token) noexcept {
  held_ = &known_[number - 1];
  hold_->key.store(held_->place);
  // Checked after the hold is visible: a thread that ends the key after this check waits for the
  // hold.
  if (held_->entry->state.load() == held_->state && held_->token == token) [[likely]]
    return {};
  return refuse(Errc::permission_denied, "the key was revoked, has expired or was given up", peer_,
                Hint::memory_key_expired);
}

Result<void> Neighbour::copy_held(const Copy& what) noexcept {
  const Key& key = *held_;
  HBMWIRE_TRY(check(key, what));
  if (key.mapped == nullptr) return copy_private(what);
  if (what.guarded) return copy_guarded(key, what);
  copy_mapped(key.mapped + (what.remote - key.address), what);
  return {};
}

Result<void> Neighbour::copy(std::uint32_t number, std::uint64_t token, const Copy& what) noexcept {
  // The usual copy first: a valid key of shared memory, which this CPU may touch unguarded.
  const Key& key = known_[number - 1];
  hold_->key.store(key.place);
  if (key.entry->state.load() == key.state && key.token == token && key.mapped != nullptr &&
      !what.guarded && is_good(key, what)) [[likely]] {
    copy_mapped(key.mapped + (what.remote - key.address), what);
    let_go();
    return {};
  }
  Result<void> copied = hold(number, token);
  if (copied) copied = copy_held(what);
  let_go();
  return copied;
}

void Neighbour::look() noexcept {
  for (Key& key : known_) {
    if (key.mapping && key.entry->state.load(kRelaxed) != key.state) key.mapping.reset();
  }
}

}  // namespace hbmwire::transport
