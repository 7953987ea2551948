// SPDX-License-Identifier: MIT
#include "registration/memory_key_state.hpp"

#include <algorithm>
#include <bit>

#include "base/incarnation.hpp"
#include "base/log.hpp"
#include "registration/register.hpp"

namespace hbmwire::detail {

namespace {

/// Registers the key's part of `region` with one NIC. Uses the region's own dma-buf: there is one
/// for each allocation, and the offset selects the part (docs/adr/0003).
Result<verbs::Mr> register_part(NicState& nic, const RegionState& region,
                                const MemoryKeyInfo& key) {
  if (region.path != Path::zero_copy) {
    return verbs::register_host(nic, std::bit_cast<void*>(key.address), key.length_bytes,
                                key.access);
  }
  const DmabufRange& whole = region.dmabuf;
  const std::uint64_t offset = whole.offset_bytes + (key.address - region.address());
  return verbs::register_dmabuf(nic, whole.fd->get(), offset, key.length_bytes, key.address,
                                key.access);
}

}  // namespace

Result<std::unique_ptr<MemoryKeyState>> MemoryKeyState::of_part(const RegionState& region,
                                                                std::uint64_t address,
                                                                std::uint64_t length_bytes,
                                                                Access access) {
  auto key = std::make_unique<MemoryKeyState>();
  key->info = {.type = region.allocation.domain().device().type,
               .address = address,
               .length_bytes = length_bytes,
               .access = access,
               .incarnation = incarnation()};
  key->info.nics.resize(region.registrations.size());
  HBMWIRE_TRY(key->register_own(region));
  return key;
}

std::uint32_t MemoryKeyState::remote_key_on(const NicState& nic) const noexcept {
  const auto ours =
      std::ranges::find(registrations, &nic, [](const auto& each) { return each.nic.get(); });
  return ours->mr.get()->rkey;
}

Result<void> MemoryKeyState::register_own(const RegionState& region_of) {
  own = true;
  if (region_of.registrations.empty()) {
    HBMWIRE_TRY(registration::check_memory(region_of.allocation, info.address, info.length_bytes,
                                           region_of.access | info.access));
  }
  memory = KeyMemory{region_of.allocation, region_of.dmabuf};
  // `info` names the NICs in the same order.
  for (const Registration& whole : region_of.registrations) {
    HBMWIRE_TRY_ASSIGN(verbs::Mr mr, register_part(*whole.nic, region_of, info));
    info.nics.at(registrations.size()).remote_key = mr.get()->rkey;
    registrations.push_back({.nic = whole.nic, .mr = std::move(mr)});
  }
  return {};
}

void MemoryKeyState::export_memory(const Allocation& allocation,
                                   std::optional<ExportedMemory::Clock::time_point> expires) {
  exported = Export({.allocation = allocation,
                     .address = info.address,
                     .length_bytes = info.length_bytes,
                     .access = info.access,
                     .path = info.path,
                     .expires = expires});
  info.token = exported.token();
}

Result<void> MemoryKeyState::end(bool waits) {
  // Checked before the lock is taken, which a thread of the parent may have held.
  if (made.is_inherited()) {
    return tl::make_unexpected(make_error(
        Errc::not_supported, Stage::register_memory,
        "the key belongs to the parent process, which can revoke it", {}, Hint::forked_nic));
  }
  // If this fails because another process still uses the memory, the registrations go nevertheless.
  const auto settled = exported.end(waits);
  std::optional<KeyMemory> last;  // destroyed without the lock
  const std::scoped_lock lock(mutex);
  for (Registration& mine : registrations) HBMWIRE_TRY(verbs::deregister(*mine.nic, mine.mr));
  registrations.clear();
  memory.swap(last);
  ended = true;
  return settled;
}

void MemoryKeyState::expire() noexcept {
  // Does not wait for other processes, because other keys must expire meanwhile. Memory that
  // another process uses is kept.
  const auto done = end(/*waits=*/false);
  if (!done && done.error().hint != Hint::peer_unsettled)
    log_line(LogLevel::error,
             [&] { return "a memory key outlives its expiry: " + describe(done.error()); });
}

}  // namespace hbmwire::detail
