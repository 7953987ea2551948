// SPDX-License-Identifier: MIT
#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "hbmwire/low_level/connection.hpp"
#include "hbmwire/memory_key.hpp"

#include "base/guarded.hpp"
#include "wire/memory_key.hpp"

namespace hbmwire {

namespace {

tl::unexpected<Error> refuse(Errc code, const char* why, Hint hint = Hint::none) {
  return tl::make_unexpected(make_error(code, Stage::post, why, {}, hint));
}

Result<void> check_expiry(const MemoryKeyInfo& key) {
  if (key.expires && *key.expires <= std::chrono::system_clock::now())
    return refuse(Errc::permission_denied, "the key has expired", Hint::memory_key_expired);
  return {};
}

}  // namespace

RemoteKey::RemoteKey(std::shared_ptr<const MemoryKeyInfo> info) noexcept
    : state_(std::move(info)) {}

const MemoryKeyInfo& RemoteKey::info() const noexcept { return *state_; }

Result<RemoteKey> RemoteKey::unpack(std::span<const std::byte> bytes) {
  return guarded(Stage::connect, [&]() -> Result<RemoteKey> {
    HBMWIRE_TRY_ASSIGN(MemoryKeyInfo info, wire::decode_memory_key(bytes));
    return RemoteKey(std::make_shared<const MemoryKeyInfo>(std::move(info)));
  });
}

Result<RemoteMemory> RemoteKey::on(const Connection& connection) const {
  if (connection.remote()) return on(*connection.remote());
  return refuse(Errc::invalid_argument, "the connection leads nowhere yet");
}

Result<RemoteMemory> RemoteKey::on(const ConnectionAddress& peer) const {
  HBMWIRE_TRY(check(peer));
  return on(peer.gid);
}

Result<void> RemoteKey::check(const ConnectionAddress& peer) const {
  if (peer.incarnation != state_->incarnation) {
    return refuse(Errc::peer_failed,
                  "the key was made by another process than the connection leads to",
                  Hint::memory_key_other_process);
  }
  return check_expiry(*state_);
}

Result<RemoteMemory> RemoteKey::on(const std::array<std::uint8_t, 16>& gid) const {
  HBMWIRE_TRY(check_expiry(*state_));
  if (state_->nics.empty())
    return refuse(Errc::not_found, "no NIC reaches the key's memory", Hint::memory_key_nic);
  const auto nic = std::ranges::find(state_->nics, gid, &MemoryKeyNic::gid);
  if (nic == state_->nics.end()) {
    return refuse(Errc::not_found, "the key does not name the NIC that the connection leads to",
                  Hint::memory_key_nic);
  }
  return RemoteMemory{state_->address, state_->length_bytes, nic->remote_key};
}

}  // namespace hbmwire
