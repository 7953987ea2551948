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
  const std::uint64_t end = offset + length;
  return end >= offset && end <= size;
}

/// From here on the CPU, where it is that which moves the bytes, keeps nothing else in its first
/// cache: what has to be noted is noted before them. What is short is noted once it is on its way.
inline constexpr std::uint64_t kLongBytes = 4096;

/// And not empty: a length of 0 becomes one that nothing has.
[[nodiscard, gnu::always_inline]] inline bool is_short(const Slice& slice) noexcept {
  return slice.length_bytes - 1 < kLongBytes - 1;
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
[[gnu::always_inline]] inline bool SendQueue::is_direct(const Slice& here,
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
  if (reach_of(distant) != usual || free == nullptr) [[unlikely]]
    return false;
  return is_short(here) || length - 1 < max_message;
}

/// The request, but for its flags.
[[gnu::always_inline]] inline void SendQueue::fill_direct(ibv_send_wr& request, const Slice& here,
                                                          const RemoteSlice& there) noexcept {
  const RegionState& local = here.region->state();
  const RemoteRegion& distant = *there.region;
  direct_element.addr = local.begin + here.offset_bytes;
  direct_element.length = static_cast<std::uint32_t>(here.length_bytes);
  direct_element.lkey = local.first_local_key;
  request.wr_id = transport::to_id(static_cast<TransferState*>(free), transport::Tag::direct);
  request.wr.rdma.remote_addr = distant.address + there.offset_bytes;
  request.wr.rdma.rkey = distant.remote_key;
}

/// The transfer that it is. Its endpoint it has, as all that this queue keeps.
[[gnu::always_inline]] inline void SendQueue::note_direct(const Way& way) noexcept {
  auto& transfer = static_cast<TransferState&>(*free);
  free = transfer.next_free;
  transfer.next = newest;
  newest = &transfer;
  ++head;
  transfer.begin_direct(head);
  transfer.bytes = direct_element.length;
  transfer.Way::operator=(way);
}

[[gnu::always_inline]] inline bool SendQueue::post_direct(ibv_send_wr& request) noexcept {
  const int result = ibv_post_send(queue, &request, &refused_at);
  if (result != 0) [[unlikely]]
    refusal = result;
  return result == 0;
}

/// Of a put.
[[gnu::always_inline]] inline bool SendQueue::is_inlined() const noexcept {
  return direct_element.length <= usual_inline;
}

template <ibv_wr_opcode kOpcode>
[[gnu::always_inline]] inline TransferState* SendQueue::send_short(
    const Slice& here, const RemoteSlice& there) noexcept {
  constexpr bool kPut = kOpcode == IBV_WR_RDMA_WRITE;
  ibv_send_wr& request = kPut ? short_put : get_request;
  fill_direct(request, here, there);
  if constexpr (kPut)
    request.send_flags = (is_inlined() ? unsigned{IBV_SEND_INLINE} : 0U) | signaling;
  if (!post_direct(request)) [[unlikely]]
    return nullptr;
  note_direct(kPut && is_inlined() ? usual_inlined_way : usual_way);
  return count_quiet();
}

template <ibv_wr_opcode kOpcode>
[[gnu::always_inline]] inline TransferState* SendQueue::send_long(
    const Slice& here, const RemoteSlice& there) noexcept {
  ibv_send_wr& request = kOpcode == IBV_WR_RDMA_WRITE ? long_put : get_request;
  fill_direct(request, here, there);
  note_direct(usual_way);
  if (!post_direct(request)) [[unlikely]] {
    take_back_direct();
    return nullptr;
  }
  return count_quiet();
}

template <ibv_wr_opcode kOpcode>
[[gnu::always_inline]] inline TransferState* SendQueue::send_direct(
    const Slice& here, const RemoteSlice& there) noexcept {
  return is_short(here) ? send_short<kOpcode>(here, there) : send_long<kOpcode>(here, there);
}

inline void EndpointState::on_direct(TransferState& transfer) noexcept {
  end_until(transfer.place);
  if (first_waiting != nullptr || mail.pressing) [[unlikely]]
    post_waiting();
}

}  // namespace hbmwire::detail
