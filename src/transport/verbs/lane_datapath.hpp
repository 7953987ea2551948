// SPDX-License-Identifier: MIT
#pragma once

#include <arpa/inet.h>
#include <infiniband/verbs.h>

#include <cstdint>

#include "transport/verbs/lane.hpp"

namespace hbmwire::transport {

[[nodiscard]] inline ibv_sge to_sge(const Element& element) noexcept {
  return {.addr = element.address, .length = element.length, .lkey = element.key};
}

[[nodiscard]] constexpr ibv_wr_opcode to_verbs(Opcode opcode) noexcept {
  return static_cast<ibv_wr_opcode>(opcode);
}

static_assert(to_verbs(Opcode::write) == IBV_WR_RDMA_WRITE &&
              to_verbs(Opcode::read) == IBV_WR_RDMA_READ &&
              to_verbs(Opcode::compare_swap) == IBV_WR_ATOMIC_CMP_AND_SWP &&
              to_verbs(Opcode::fetch_add) == IBV_WR_ATOMIC_FETCH_AND_ADD);

/// Fills in the request except for `next` and `wr_id`. The request is signaled.
inline void to_request(const Operation& operation, ibv_sge& sge, ibv_send_wr& request) noexcept {
  sge = {.addr = operation.local,
         .length = static_cast<std::uint32_t>(operation.length),
         .lkey = operation.local_key};
  request.sg_list = &sge;
  request.num_sge = operation.length != 0 ? 1 : 0;
  request.opcode = to_verbs(operation.opcode);
  request.send_flags = IBV_SEND_SIGNALED;
  if (operation.fenced) request.send_flags |= IBV_SEND_FENCE;
  if (operation.inlined) request.send_flags |= IBV_SEND_INLINE;
  if (operation.with_immediate) {
    request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    request.imm_data = htonl(operation.immediate);
  }
  if (is_atomic(operation.opcode)) {
    request.wr.atomic.remote_addr = operation.remote;
    request.wr.atomic.rkey = operation.remote_key;
    request.wr.atomic.compare_add = operation.compare_or_add;
    request.wr.atomic.swap = operation.swap;
  } else {
    request.wr.rdma.remote_addr = operation.remote;
    request.wr.rdma.rkey = operation.remote_key;
  }
}

inline void VerbsChain::aim(std::size_t index, const Aim& at) noexcept {
  elements_[index] = {.addr = at.local, .length = at.length, .lkey = at.local_key};
  requests_[index].wr.rdma = {.remote_addr = at.remote, .rkey = at.remote_key};
}

inline int VerbsLane::post_chain(ibv_send_wr& first, bool& begun) noexcept {
  ibv_send_wr* bad = nullptr;
  const int result = ibv_post_send(queue_, &first, &bad);
  begun = result != 0 && bad != nullptr && bad != &first;
  return result;
}

/// Posts to `queue`. Returns the result of ibv_post_send(3).
inline int post_to(ibv_qp& queue, const Operation& operation, std::uint64_t id) noexcept {
  ibv_sge element;
  ibv_send_wr request;
  request.next = nullptr;
  request.wr_id = id;
  to_request(operation, element, request);
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(&queue, &request, &bad);
}

inline int post_to(ibv_qp& queue, const Message& message, std::uint64_t id) noexcept {
  ibv_sge elements[2] = {to_sge(message.header), to_sge(message.payload)};
  ibv_send_wr request;
  request.next = nullptr;
  request.wr_id = id;
  request.sg_list = elements;
  request.num_sge = message.payload.length != 0 ? 2 : 1;
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED;
  if (message.fenced) request.send_flags |= IBV_SEND_FENCE;
  if (message.inlined) request.send_flags |= IBV_SEND_INLINE;
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(&queue, &request, &bad);
}

inline int VerbsLane::post(const Operation& operation, std::uint64_t id) noexcept {
  return post_to(*queue_, operation, id);
}

inline int VerbsLane::post(const Message& message, std::uint64_t id) noexcept {
  return post_to(*queue_, message, id);
}

inline int VerbsLane::post(PreparedChain& chain, bool fenced, bool& begun) noexcept {
  ibv_send_wr& first = static_cast<VerbsChain&>(chain).first();
  first.send_flags &= ~static_cast<unsigned>(IBV_SEND_FENCE);
  if (fenced) first.send_flags |= IBV_SEND_FENCE;
  return post_chain(first, begun);
}

/// Posts to a lane. If a NIC carries the lane, this does not read the lane itself: with a thousand
/// peers that would be a cache miss before the one for the queue pair.
class Poster {
 public:
  Poster() = default;

  /// Usable until the lane is cut.
  explicit Poster(Lane& lane) noexcept
      : queue_(lane.by_nic() ? static_cast<VerbsLane&>(lane).queue_pair() : nullptr) {}

  template <class Request>
  int post(Lane& lane, const Request& request, std::uint64_t id) const noexcept {
    if (queue_ != nullptr) [[likely]]
      return post_to(*queue_, request, id);
    return lane.post(request, id);
  }

 private:
  ibv_qp* queue_ = nullptr;
};

}  // namespace hbmwire::transport
