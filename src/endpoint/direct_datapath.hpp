// SPDX-License-Identifier: MIT
#pragma once

#include "endpoint/endpoint_state.hpp"

/// What nearly every put, and get into host memory, is: one request, for which there is room,
/// between two slices in which nothing is wrong. It is looked at here in one go; what is anything
/// else goes by endpoint_datapath.cpp, which says what is wrong with it. ibv_wc leads to the
/// transfer itself, not to its place in the ring.
namespace hbmwire::detail {

/// Whether [offset, offset + length) is in [0, size).
[[nodiscard]] constexpr bool is_within(std::uint64_t offset, std::uint64_t length,
                                       std::uint64_t size) noexcept {
  return offset <= size && length <= size - offset;
}

/// So many bytes, read and written, leave little of a first cache.
inline constexpr std::uint64_t kEvicts = 4096;

// NOLINTBEGIN(readability-function-size): all that a usual one takes, in one go.
template <ibv_wr_opcode kOpcode, Access kNeeded>
[[gnu::always_inline]] inline TransferState* EndpointState::start_direct(
    const Slice& here, const RemoteSlice& there) noexcept {
  if (here.region == nullptr || there.region == nullptr) [[unlikely]]
    return nullptr;
  const RegionState& local = here.region->state();
  const RemoteRegion& distant = *there.region;
  const std::uint64_t length = here.length_bytes;
  TransferState* const transfer = worker->free;
  // A length of 0 becomes one that nothing has. What a READ brings into a device is flushed after
  // it.
  const bool usual =
      phase == EndpointPhase::ready && room != 0 && first_waiting == nullptr && !fence_next &&
      transfer != nullptr && length - 1 < max_message && length == there.length_bytes &&
      (kOpcode == IBV_WR_RDMA_WRITE || local.path == Path::host) && local.first_nic == nic &&
      has_path(plain_paths, local.path) && is_within(here.offset_bytes, length, local.size_bytes) &&
      is_within(there.offset_bytes, length, distant.length_bytes) && distant.connection == number &&
      has(distant.access, kNeeded) && !worker->made.is_inherited();
  if (!usual) [[unlikely]]
    return nullptr;

  ibv_sge element;
  element.addr = local.begin + here.offset_bytes;
  element.length = static_cast<std::uint32_t>(length);
  element.lkey = local.first_local_key;
  ibv_send_wr request;
  request.wr_id = transport::to_id(transfer, transport::Tag::direct);
  request.next = nullptr;
  request.sg_list = &element;
  request.num_sge = 1;
  request.opcode = kOpcode;
  // The CPU reads what is inlined, which it can't from a device.
  const bool inlines =
      kOpcode == IBV_WR_RDMA_WRITE && length <= inline_bytes && local.path == Path::host;
  request.send_flags = inlines ? IBV_SEND_SIGNALED | IBV_SEND_INLINE : IBV_SEND_SIGNALED;
  request.wr.rdma.remote_addr = distant.address + there.offset_bytes;
  request.wr.rdma.rkey = distant.remote_key;

  // All is noted before it is posted, while what that writes is in the first cache: where the CPU
  // itself moves the bytes, nothing of it is afterwards. The ring is where those look that end what
  // is under way.
  ring[head & ring_mask].transfer = transfer;
  ++head;
  ++outstanding;
  --room;
  worker->free = transfer->next;
  transfer->endpoint = this;
  transfer->bytes = length;
  transfer->parts = 1;
  transfer->status = TransferState::Status::active;
  transfer->held = true;
  set_way(*transfer, &local, &distant);
  transfer->protocol = inlines ? Protocol::inlined : Protocol::direct;

  ibv_send_wr* bad = nullptr;
  if (ibv_post_send(queue, &request, &bad) != 0) [[unlikely]] {
    // Why it failed is found out by trying it the other way.
    --head;
    --outstanding;
    ++room;
    transfer->endpoint = nullptr;
    transfer->parts = 0;
    worker->put_back(*transfer);
    return nullptr;
  }

  // What the next one begins with: where the CPU itself moved so many bytes, nothing of it is in
  // the first cache any more, and one leads to the other.
  if (length >= kEvicts) {
    __builtin_prefetch(worker->free, 1);
    __builtin_prefetch(&ring[head & ring_mask], 1);
    __builtin_prefetch(here.region);
    __builtin_prefetch(&local);
    __builtin_prefetch(&distant);
  }
  return transfer;
}

// NOLINTEND(readability-function-size)

inline void EndpointState::on_direct(TransferState& transfer) noexcept {
  ++room;
  --outstanding;
  transfer.parts = 0;
  worker->succeed(transfer);
  if (first_waiting != nullptr || mail.pressing) [[unlikely]]
    post_waiting();
}

}  // namespace hbmwire::detail
