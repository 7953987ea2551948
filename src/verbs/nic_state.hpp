// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hbmwire/nic.hpp"

#include "base/internals.hpp"
#include "verbs/handles.hpp"

namespace hbmwire::detail {

/// The limits of a device, from ibv_query_device(3).
struct DeviceLimits {
  int queue_pairs = 0;
  int completion_queues = 0;
  int completions = 0;      ///< in a completion queue
  int requests = 0;         ///< in a work queue
  int shared_queues = 0;    ///< shared receive queues
  int shared_receives = 0;  ///< in a shared receive queue
  int reads_in = 0;         ///< READs and atomics that a queue pair answers at a time
  int reads_out = 0;        ///< those that it asks for at a time
  bool atomics = false;
};

/// An opened device. Members are destroyed in reverse order: the protection domain before its
/// device.
struct NicState : std::enable_shared_from_this<NicState> {
  /// A number that is unique among all NICs that this process opens, and never 0.
  static std::uint32_t next_number() noexcept {
    static std::atomic<std::uint32_t> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;
  }

  const std::uint32_t number = next_number();
  NicInfo info;
  ibv_gid gid{};
  std::uint16_t lid = 0;
  std::uint64_t max_region_bytes = 0;  // 0: unknown
  DeviceLimits limits;
  std::mutex events;  // held while asynchronous events are read
  verbs::DeviceContext context;
  verbs::Pd pd;
};

}  // namespace hbmwire::detail

namespace hbmwire::verbs {

/// Opens `device` ("name", "name:port" or empty: see Nic::open()).
Result<std::shared_ptr<detail::NicState>> open_nic(std::string_view device,
                                                   std::optional<std::uint8_t> gid_index);

/// How to recognize the network interfaces of a NIC's port among this machine's.
struct NicInterfaces {
  /// Whether interface `number` belongs to the NIC. `hardware`: the address of its link.
  [[nodiscard]] bool has(std::uint32_t number,
                         std::span<const std::uint8_t> hardware) const noexcept;

  std::vector<std::uint32_t> numbers = {};  ///< RoCE: if_nametoindex(3), from the GIDs' addresses
  /// InfiniBand: the last 8 bytes of the port's GID, and of an IPoIB interface's hardware address
  /// (RFC 4391, section 9.1.1).
  std::optional<std::array<std::uint8_t, 8>> guid = {};
};

[[nodiscard]] NicInterfaces interfaces_of(const detail::NicState& nic);

/// The error that the NIC belongs to the parent of this child by fork(2).
Error inherited_error(const detail::NicState& nic, Stage stage) noexcept;

/// Errors: Errc::not_supported (inherited_error()). Costs a load, so it can be called before each
/// post, too.
inline Result<void> check_process(const detail::NicState& nic, Stage stage) {
  if (!nic.context.is_inherited()) [[likely]]
    return {};
  return tl::make_unexpected(inherited_error(nic, stage));
}

/// "mlx5_0 (max_qp 131072)": names the NIC's limit in the error of an object that could not be
/// made.
[[nodiscard]] std::string with_limit(const detail::NicState& nic, std::string_view name, int most);

/// Errors: Errc::not_supported, Hint::no_atomics (the NIC has no atomic operations).
Result<void> check_atomics(const detail::NicState& nic, Stage stage);

/// Registers host memory with ibv_reg_mr(3). The MR's iova is the address.
Result<Mr> register_host(detail::NicState& nic, void* address, std::size_t length, Access access);

/// Registers [offset, offset + length) of a dma-buf at `iova` with ibv_reg_dmabuf_mr(3).
Result<Mr> register_dmabuf(detail::NicState& nic, int fd, std::uint64_t offset, std::size_t length,
                           std::uint64_t iova, Access access);

/// Registers host memory in another protection domain than the NIC's.
Result<Mr> register_host(const detail::NicState& nic, const Pd& domain, void* address,
                         std::size_t length, Access access);

/// Calls ibv_alloc_pd(3). Errors: Stage::open.
Result<Pd> allocate_domain(const detail::NicState& nic);

/// Makes a channel whose events are read without blocking, whichever thread polls its descriptor.
/// Errors: Stage::open.
Result<CompletionChannel> create_channel(const detail::NicState& nic);

/// The ibv_srq::srq_context of all shared receive queues of the library, which tells them from the
/// application's.
[[nodiscard]] void* shared_receives_mark() noexcept;

/// The ibv_qp::qp_context of queue pairs on the library's shared receive queues.
struct SharedReceiver {
  std::atomic<bool> took_last{false};  // IBV_EVENT_QP_LAST_WQE_REACHED has come
};

/// Reads all waiting asynchronous events, without blocking. Stores those for a SharedReceiver and
/// discards the others. Any thread may call it.
void take_async_events(detail::NicState& nic) noexcept;

/// Deregisters `mr` of `nic` with ibv_dereg_mr(3), for callers that must know that it has
/// succeeded. Does nothing for a null `mr`. If it fails, `mr` stays as it was.
Result<void> deregister(const detail::NicState& nic, Mr& mr);

}  // namespace hbmwire::verbs
