// SPDX-License-Identifier: MIT
#pragma once

#include "endpoint/quiet_datapath.hpp"

/// What nearly every put, and get into host memory, is: one request, for which there is room,
/// between two slices in which nothing is wrong. It is looked at here in one go; what is anything
/// else goes by endpoint_datapath.cpp, which says what is wrong with it. ibv_wc leads to the
/// transfer itself, not to its place in the ring.
namespace hbmwire::detail {

/// Whether [offset, offset + length) is in [0, size).
[[nodiscard, gnu::always_inline]] constexpr bool is_within(std::uint64_t offset,
                                                           std::uint64_t length,
                                                           std::uint64_t size) noexcept {
  return offset <= size && length <= size - offset;
}

/// From here on the CPU, where it is that which moves the bytes, keeps nothing else in its first
/// cache, and each store behind those of the bytes is dear: what has to be noted is noted before
/// them, and only where it is not there yet. What is short is noted once it is on its way.
inline constexpr std::uint64_t kLongBytes = 4096;

template <bool kLong, class T>
[[gnu::always_inline]] inline void put_into(T& field, T value) noexcept {
  if (!kLong || field != value) field = value;
}

/// What of a remote region the way of a transfer depends on, as one word.
[[nodiscard, gnu::always_inline]] inline std::uint64_t reach_of(
    const RemoteRegion& region) noexcept {
  return std::uint64_t{region.connection} | static_cast<std::uint64_t>(region.access) << 32U |
         static_cast<std::uint64_t>(region.type) << 40U |
         static_cast<std::uint64_t>(region.path) << 48U |
         static_cast<std::uint64_t>(region.rails) << 56U;
}

template <ibv_wr_opcode kOpcode>
[[gnu::always_inline]] inline bool SendQueue::is_usual(const Slice& here,
                                                       const RemoteSlice& there) const noexcept {
  if (here.region == nullptr || there.region == nullptr || direct_until == head) [[unlikely]]
    return false;
  const RegionState& local = here.region->state();
  const RemoteRegion& distant = *there.region;
  const std::uint64_t length = here.length_bytes;
  if (local.as_word() != usual_reach || length != there.length_bytes) [[unlikely]]
    return false;
  if (!is_within(here.offset_bytes, length, local.size_bytes)) [[unlikely]]
    return false;
  if (!is_within(there.offset_bytes, length, distant.length_bytes)) [[unlikely]]
    return false;
  // What a READ brings into a device is flushed after it.
  if (kOpcode == IBV_WR_RDMA_READ && local.path != Path::host) return false;
  const std::uint64_t usual = kOpcode == IBV_WR_RDMA_WRITE ? usual_target : usual_source;
  return reach_of(distant) == usual && free != nullptr;
}

// A length of 0 becomes one that nothing has.
[[nodiscard, gnu::always_inline]] inline bool SendQueue::is_short(const Slice& here) noexcept {
  return here.length_bytes - 1 < kLongBytes - 1;
}

[[nodiscard, gnu::always_inline]] inline bool SendQueue::is_message(
    const Slice& here) const noexcept {
  return here.length_bytes - 1 < max_message;
}

/// The request, but for its flags.
template <ibv_wr_opcode kOpcode, bool kLong>
[[gnu::always_inline]] inline void SendQueue::fill_direct(const Slice& here,
                                                          const RemoteSlice& there) noexcept {
  const RegionState& local = here.region->state();
  const RemoteRegion& distant = *there.region;
  const auto length = static_cast<std::uint32_t>(here.length_bytes);
  direct_element.addr = local.begin + here.offset_bytes;
  put_into<kLong>(direct_element.length, length);
  put_into<kLong>(direct_element.lkey, local.first_local_key);
  direct_request.wr_id =
      transport::to_id(static_cast<TransferState*>(free), transport::Tag::direct);
  put_into<kLong>(direct_request.opcode, kOpcode);
  direct_request.wr.rdma.remote_addr = distant.address + there.offset_bytes;
  put_into<kLong>(direct_request.wr.rdma.rkey, distant.remote_key);
}

/// The transfer that it is. Its endpoint it has, as all that this queue keeps.
template <bool kLong>
[[gnu::always_inline]] inline TransferState& SendQueue::note_direct(const Slice& here) noexcept {
  const RegionState& local = here.region->state();
  const std::uint64_t length = here.length_bytes;
  auto& transfer = static_cast<TransferState&>(*free);
  free = transfer.next_free;
  transfer.next = newest;
  newest = &transfer;
  ++head;
  transfer.begin_direct(head);
  put_into<kLong>(transfer.bytes, length);
  put_into<kLong>(transfer.paths, local.paths);
  if (!kLong || transfer.as_word() != usual_way.as_word()) transfer.Way::operator=(usual_way);
  return transfer;
}

template <ibv_wr_opcode kOpcode>
[[gnu::always_inline]] inline TransferState* SendQueue::send_short(
    const Slice& here, const RemoteSlice& there) noexcept {
  fill_direct<kOpcode, false>(here, there);
  const bool inlined = kOpcode == IBV_WR_RDMA_WRITE && here.length_bytes <= usual_inline;
  direct_request.send_flags = (inlined ? unsigned{IBV_SEND_INLINE} : 0U) |
                              (loud_at == head ? unsigned{IBV_SEND_SIGNALED} : 0U);
  ibv_send_wr* bad;
  if (const int result = ibv_post_send(queue, &direct_request, &bad); result != 0) [[unlikely]] {
    refusal = result;
    return nullptr;
  }
  TransferState& transfer = note_direct<false>(here);
  if ((direct_request.send_flags & IBV_SEND_INLINE) != 0) transfer.protocol = Protocol::inlined;
  count_quiet();
  return &transfer;
}

template <ibv_wr_opcode kOpcode>
[[gnu::always_inline]] inline TransferState* SendQueue::send_long(
    const Slice& here, const RemoteSlice& there) noexcept {
  fill_direct<kOpcode, true>(here, there);
  put_into<true>(direct_request.send_flags, loud_at != head ? 0U : unsigned{IBV_SEND_SIGNALED});
  TransferState& transfer = note_direct<true>(here);
  ibv_send_wr* bad;
  if (const int result = ibv_post_send(queue, &direct_request, &bad); result != 0) [[unlikely]] {
    refusal = result;
    take_back_direct(transfer);
    return nullptr;
  }
  count_quiet();
  return &transfer;
}

inline void EndpointState::on_direct(TransferState& transfer) noexcept {
  end_until(transfer.place);
  if (first_waiting != nullptr || mail.pressing) [[unlikely]]
    post_waiting();
}

}  // namespace hbmwire::detail
