// SPDX-License-Identifier: MIT
#include "transport/verbs/loopback.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "memory/host/host_domain.hpp"

namespace hbmwire::transport {

namespace {

// Large enough to hide the hand-over, small enough to stay in a shared cache.
constexpr std::uint64_t kBounceBytes = 4ULL << 20;

std::byte* pointer_to(const Region& host_region) {
  return std::bit_cast<std::byte*>(host_region.address());
}

}  // namespace

Result<Loopback> Loopback::create(const Nic& nic) {
  HBMWIRE_TRY_ASSIGN(const Allocation allocation,
                     memory::host::make_domain()->allocate(kBounceBytes));
  HBMWIRE_TRY_ASSIGN(Region bounce,
                     nic.register_memory(allocation, Access::local_write | Access::remote_write |
                                                         Access::remote_read));
  HBMWIRE_TRY_ASSIGN(Connection connection,
                     Connection::create(nic, {.send_depth = 1, .receive_depth = 1}));
  HBMWIRE_TRY(connection.connect(connection.local()));
  return Loopback(std::move(bounce), std::move(connection));
}

Result<void> Loopback::finish(const Wait& wait) {
  HBMWIRE_TRY_ASSIGN(const auto done, connection_.wait(wait));
  (void)done;  // one request at a time: whatever completed is it
  return {};
}

Result<void> Loopback::copy_in(const Region& region, std::uint64_t offset,
                               std::span<const std::byte> from, const Wait& wait) {
  for (std::uint64_t done = 0; done < from.size();) {
    const std::uint64_t size =
        std::min({kBounceBytes, from.size() - done, connection_.max_message_bytes()});
    std::memcpy(pointer_to(bounce_), from.data() + done, size);
    RemoteMemory source = bounce_.remote();
    source.length_bytes = size;
    HBMWIRE_TRY(connection_.post_read(0, {&region, offset + done, size}, source));
    HBMWIRE_TRY(finish(wait));
    done += size;
  }
  return {};
}

Result<void> Loopback::copy_out(const Region& region, std::uint64_t offset, std::span<std::byte> to,
                                const Wait& wait) {
  for (std::uint64_t done = 0; done < to.size();) {
    const std::uint64_t size =
        std::min({kBounceBytes, to.size() - done, connection_.max_message_bytes()});
    RemoteMemory target = bounce_.remote();
    target.length_bytes = size;
    HBMWIRE_TRY(connection_.post_write(0, {&region, offset + done, size}, target));
    HBMWIRE_TRY(finish(wait));
    std::memcpy(to.data() + done, pointer_to(bounce_), size);
    done += size;
  }
  return {};
}

Result<void> Loopback::flush(const Region& region, std::uint64_t offset, const Wait& wait) {
  HBMWIRE_TRY(connection_.post_write(0, {&region, offset, 1}, bounce_.remote()));
  return finish(wait);
}

}  // namespace hbmwire::transport
