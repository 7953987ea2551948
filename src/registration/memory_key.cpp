// SPDX-License-Identifier: MIT
#include "hbmwire/memory_key.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/guarded.hpp"
#include "base/incarnation.hpp"
#include "registration/memory_key_state.hpp"
#include "wire/memory_key.hpp"

namespace hbmwire {

namespace {

using std::chrono::nanoseconds;

// 100 years: far below the limit of 64 bits of nanoseconds on either clock.
constexpr nanoseconds kLongestLife = std::chrono::hours(24 * 36525LL);

tl::unexpected<Error> refuse(const char* why, Hint hint = Hint::none) {
  return tl::make_unexpected(
      make_error(Errc::invalid_argument, Stage::register_memory, why, {}, hint));
}

Access remote_part(Access access) noexcept {
  return (has(access, Access::remote_write) ? Access::remote_write : Access::none) |
         (has(access, Access::remote_read) ? Access::remote_read : Access::none) |
         (has(access, Access::remote_atomic) ? Access::remote_atomic : Access::none);
}

/// Writes the requested range into `key`.
Result<void> set_range(MemoryKeyInfo& key, const Region& region, const MemoryKeyOptions& options) {
  const std::uint64_t size = region.size_bytes();
  const std::uint64_t offset = options.offset_bytes;
  if (offset >= size) return refuse("a key's range lies in its region, and is not empty");
  const std::uint64_t length = options.length_bytes.value_or(size - offset);
  if (length == 0 || length > size - offset)
    return refuse("a key's range lies in its region, and is not empty");
  key.address = region.address() + offset;
  key.length_bytes = length;
  return {};
}

Result<void> set_access(MemoryKeyInfo& key, const Region& region, const MemoryKeyOptions& options) {
  const Access open = remote_part(region.access());
  key.access = options.access.value_or(open);
  if (key.access == Access::none) return refuse("a key to nothing", Hint::memory_key_access);
  if (remote_part(key.access) != key.access)
    return refuse("a key can give remote access only", Hint::memory_key_access);
  // A region that is not open to peers does not limit a key, which gets registrations of its own.
  if (open != Access::none && (key.access | open) != open)
    return refuse("a key can't give more access than its region", Hint::memory_key_access);
  const DmabufRange& dmabuf = state_of(region).dmabuf;
  if ((has(key.access, Access::remote_write) || has(key.access, Access::remote_atomic)) &&
      dmabuf.fd && !dmabuf.writable) {
    return tl::make_unexpected(make_error(Errc::permission_denied, Stage::register_memory,
                                          "the dma-buf is open read-only", {},
                                          Hint::dmabuf_read_only));
  }
  return {};
}

Result<void> set_nics(MemoryKeyInfo& key, const Region& region) {
  for (const detail::Registration& registration : state_of(region).registrations) {
    MemoryKeyNic& nic = key.nics.emplace_back();
    std::copy(std::begin(registration.nic->gid.raw), std::end(registration.nic->gid.raw),
              nic.gid.begin());
    nic.remote_key = registration.mr.get()->rkey;
  }
  if (wire::is_sane(key.nics)) return {};
  return refuse("a key names at most 64 NICs, each by a GID of its own");
}

/// Checks the options, and fills in all that the key tells except its registrations.
Result<MemoryKeyInfo> checked_info(const Region& region, const MemoryKeyOptions& options) {
  MemoryKeyInfo key;
  key.type = region.allocation().domain().device().type;
  // A peer needs to know only whether NICs reach the memory. If they do not, the exporter's process
  // moves the bytes, whatever path it takes.
  key.path = std::min(region.path(), Path::staged);
  key.incarnation = incarnation();
  HBMWIRE_TRY(set_range(key, region, options));
  HBMWIRE_TRY(set_access(key, region, options));
  if (options.expires_after &&
      (*options.expires_after <= nanoseconds(0) || *options.expires_after > kLongestLife)) {
    return refuse("a key expires in the future, within 100 years");
  }
  if (options.attach &&
      (options.attach->socket.empty() || options.attach->socket.size() > wire::kMaxSocketBytes)) {
    return refuse("the name of an attach socket has 1 to 100 bytes");
  }
  key.attach = options.attach;
  HBMWIRE_TRY(set_nics(key, region));
  return key;
}

/// Whether the region's own registration would open more than was asked for, or for longer.
bool needs_own(const MemoryKeyInfo& key, const Region& region, const MemoryKeyOptions& options) {
  return options.revocable || options.expires_after || key.length_bytes != region.size_bytes() ||
         key.access != remote_part(region.access());
}

}  // namespace

MemoryKey::MemoryKey(std::unique_ptr<detail::MemoryKeyState> state) noexcept
    : state_(std::move(state)) {}

MemoryKey::MemoryKey(MemoryKey&&) noexcept = default;
MemoryKey& MemoryKey::operator=(MemoryKey&&) noexcept = default;
MemoryKey::~MemoryKey() = default;

Result<MemoryKey> MemoryKey::pack(const Region& region, const MemoryKeyOptions& asked) {
  return guarded(Stage::register_memory, [&]() -> Result<MemoryKey> {
    // The largest duration means "never".
    MemoryKeyOptions options = asked;
    if (options.expires_after == nanoseconds::max()) options.expires_after.reset();
    // Read before anything is registered: on neither clock may the key expire later than was asked
    // for.
    const auto local_now = Alarm::Clock::now();
    const auto wall_now = std::chrono::system_clock::now();
    auto state = std::make_unique<detail::MemoryKeyState>();
    HBMWIRE_TRY_ASSIGN(state->info, checked_info(region, options));
    if (needs_own(state->info, region, options)) {
      HBMWIRE_TRY(state->register_own(state_of(region)));
    } else {
      state->region = region;
    }
    std::optional<Alarm::Clock::time_point> expires;
    if (options.expires_after) expires = local_now + *options.expires_after;
    state->export_memory(region.allocation(), expires);
    if (expires) {
      state->info.expires = wall_now + *options.expires_after;
      HBMWIRE_TRY_ASSIGN(state->alarm,
                         Alarm::set(*expires, [expiring = state.get()] { expiring->expire(); }));
    }
    state->bytes = wire::encode(state->info);
    return MemoryKey(std::move(state));
  });
}

std::span<const std::byte> MemoryKey::bytes() const noexcept { return state_->bytes; }

const MemoryKeyInfo& MemoryKey::info() const noexcept { return state_->info; }

bool MemoryKey::revocable() const noexcept { return state_->own; }

bool MemoryKey::valid() const noexcept { return !state_->ended; }

Result<void> MemoryKey::revoke() {
  return guarded(Stage::register_memory, [&]() -> Result<void> {
    if (state_->own) return state_->end();
    return tl::make_unexpected(make_error(Errc::not_supported, Stage::register_memory,
                                          "the key has no registration of its own to revoke", {},
                                          Hint::memory_key_not_revocable));
  });
}

}  // namespace hbmwire
