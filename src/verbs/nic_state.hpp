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

/// What ibv_query_device(3) says of a device.
struct DeviceLimits {
  int queue_pairs = 0;
  int completion_queues = 0;
  int completions = 0;      ///< of a completion queue
  int requests = 0;         ///< of a work queue
  int shared_queues = 0;    ///< shared receive queues
  int shared_receives = 0;  ///< of one of them
  int reads_in = 0;         ///< READs and atomics that a queue pair answers at a time, and
  int reads_out = 0;        ///< that it asks for
  bool atomics = false;
};

/// An opened device. Members are destroyed in reverse: the protection domain before its device.
struct NicState : std::enable_shared_from_this<NicState> {
  /// Of all that this process opens, none of which is 0; never again another one's.
  static std::uint32_t next_number() noexcept {
    static std::atomic<std::uint32_t> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;
  }

  const std::uint32_t number = next_number();
  NicInfo info;
  ibv_gid gid{};
  std::uint16_t lid = 0;
  std::uint64_t max_region_bytes = 0;  // 0: not told
  DeviceLimits limits;
  std::mutex events;  // held while asynchronous events are read
  verbs::DeviceContext context;
  verbs::Pd pd;
};

}  // namespace hbmwire::detail

namespace hbmwire::verbs {

/// Opens `device` ("name", "name:port" or empty, see Nic::open()).
Result<std::shared_ptr<detail::NicState>> open_nic(std::string_view device,
                                                   std::optional<std::uint8_t> gid_index);

/// How to find the network interfaces of a NIC's port among this machine's.
struct NicInterfaces {
  /// `hardware`: the address of its link.
  [[nodiscard]] bool has(std::uint32_t number,
                         std::span<const std::uint8_t> hardware) const noexcept;

  std::vector<std::uint32_t> numbers = {};  ///< of RoCE, if_nametoindex(3): of the GIDs' addresses
  /// InfiniBand: the last 8 bytes of its GID, and of an IPoIB interface's hardware address (RFC
  /// 4391, section 9.1.1).
  std::optional<std::array<std::uint8_t, 8>> guid = {};
};

[[nodiscard]] NicInterfaces interfaces_of(const detail::NicState& nic);

/// That the NIC is the parent's, this process a child by fork(2).
Error inherited_error(const detail::NicState& nic, Stage stage) noexcept;

/// Errors: Errc::not_supported: so it is. Before each post, too, where it costs a load.
inline Result<void> check_process(const detail::NicState& nic, Stage stage) {
  if (!nic.context.is_inherited()) [[likely]]
    return {};
  return tl::make_unexpected(inherited_error(nic, stage));
}

/// "mlx5_0 (max_qp 131072)": for the error of an object of which the NIC has so many.
[[nodiscard]] std::string with_limit(const detail::NicState& nic, std::string_view name, int most);

/// Errors: Errc::not_supported, Hint::no_atomics: the NIC has no atomic operations.
Result<void> check_atomics(const detail::NicState& nic, Stage stage);

/// Registers host memory, ibv_reg_mr(3). The MR's iova is the address.
Result<Mr> register_host(detail::NicState& nic, void* address, std::size_t length, Access access);

/// Registers [offset, offset + length) of a dma-buf at `iova`, ibv_reg_dmabuf_mr(3).
Result<Mr> register_dmabuf(detail::NicState& nic, int fd, std::uint64_t offset, std::size_t length,
                           std::uint64_t iova, Access access);

/// The same, in another protection domain than the NIC's.
Result<Mr> register_host(const detail::NicState& nic, const Pd& domain, void* address,
                         std::size_t length, Access access);

/// ibv_alloc_pd(3). Errors: Stage::open.
Result<Pd> allocate_domain(const detail::NicState& nic);

/// Its events are read without blocking, whichever thread polls its descriptor. Errors:
/// Stage::open.
Result<CompletionChannel> create_channel(const detail::NicState& nic);

/// ibv_srq::srq_context of the library's shared receive queues, by which it knows its own.
[[nodiscard]] void* shared_receives_mark() noexcept;

/// ibv_qp::qp_context of queue pairs on these.
struct SharedReceiver {
  std::atomic<bool> took_last{false};  // IBV_EVENT_QP_LAST_WQE_REACHED
};

/// Reads what asynchronous events there are, without blocking: of them only those of a
/// SharedReceiver have a reader. From any thread.
void take_async_events(detail::NicState& nic) noexcept;

/// Deregisters `mr` of `nic`, ibv_dereg_mr(3), where the caller must know that it has gone. Nothing
/// to do for a null one. When it fails, `mr` is what it was.
Result<void> deregister(const detail::NicState& nic, Mr& mr);

}  // namespace hbmwire::verbs
