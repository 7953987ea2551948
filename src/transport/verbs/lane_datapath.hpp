// SPDX-License-Identifier: MIT
#pragma once

#include <arpa/inet.h>
#include <infiniband/verbs.h>

#include <cstdint>

#include "transport/verbs/lane.hpp"

namespace hbmwire::transport {

/// What ibv_wc::wr_id holds: a pointer, and in its low bits whose.
enum class Tag : std::uint8_t {
  posted,   ///< Posted: the last request of an operation, or of a piece of one
  part,     ///< Posted: one before the last; completes only when it fails
  message,  ///< a receive buffer of the data lane
  control,  ///< a buffer of the control lane
  rail,     ///< RailPiece: a request of a lane on a further NIC
  moved,    ///< LoopbackMover: the last request of a job
  moving,   ///< one before the last; completes only when it fails
};

inline constexpr std::uint64_t kTagMask = 7;

template <class T>
[[nodiscard]] inline std::uint64_t to_id(T* pointer, Tag tag) noexcept {
  static_assert(alignof(T) > kTagMask);
  return reinterpret_cast<std::uint64_t>(pointer) | static_cast<std::uint64_t>(tag);
}

[[nodiscard]] inline Tag tag_of(std::uint64_t id) noexcept {
  return static_cast<Tag>(id & kTagMask);
}

template <class T>
[[nodiscard]] inline T* pointer_of(std::uint64_t id) noexcept {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): a request's id is all that comes back.
  return reinterpret_cast<T*>(id & ~kTagMask);
}

/// One operation of the send queue, in the words of the caller. What is longer than a message is
/// posted in pieces, from the front.
struct Operation {
  std::uint64_t local = 0;   ///< address, of `length` bytes
  std::uint64_t remote = 0;  ///< address
  std::uint64_t length = 0;
  std::uint32_t local_key = 0;
  std::uint32_t remote_key = 0;
  std::uint64_t compare_or_add = 0;  ///< of atomics
  std::uint64_t swap = 0;
  std::uint32_t immediate = 0;  ///< in the host's order
  ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE;
  bool with_immediate = false;  ///< a WRITE whose last piece carries it
  bool inlined = false;
  bool fenced = false;   ///< begins after the READs and atomics before it
  bool flushed = false;  ///< a WRITE that is followed by a READ of its last byte, into `scratch`
};

/// Posts a chain of requests; `errno` of ibv_post_send(3). `begun`: it failed behind the first one,
/// so what precedes the one that failed is in the queue.
inline int post_chain(Lane& lane, ibv_send_wr& first, bool& begun) noexcept {
  ibv_send_wr* bad = nullptr;
  const int result = ibv_post_send(lane.queue, &first, &bad);
  begun = result != 0 && bad != nullptr && bad != &first;
  return result;
}

/// Posts one request; `errno` of ibv_post_send(3).
inline int post_one(Lane& lane, ibv_send_wr& request) noexcept {
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(lane.queue, &request, &bad);
}

/// Fills in a request for `length` bytes from the front of `operation`.
inline void to_request(const Operation& operation, std::uint32_t length, bool last, ibv_sge& sge,
                       ibv_send_wr& request) noexcept {
  sge = {.addr = operation.local, .length = length, .lkey = operation.local_key};
  request.sg_list = &sge;
  request.num_sge = length != 0 ? 1 : 0;
  request.opcode = operation.opcode;
  request.send_flags = IBV_SEND_SIGNALED;
  if (operation.fenced) request.send_flags |= IBV_SEND_FENCE;
  if (operation.inlined) request.send_flags |= IBV_SEND_INLINE;
  if (operation.with_immediate && last) {
    request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    request.imm_data = htonl(operation.immediate);
  }
  if (operation.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
      operation.opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
    request.wr.atomic.remote_addr = operation.remote;
    request.wr.atomic.rkey = operation.remote_key;
    request.wr.atomic.compare_add = operation.compare_or_add;
    request.wr.atomic.swap = operation.swap;
  } else {
    request.wr.rdma.remote_addr = operation.remote;
    request.wr.rdma.rkey = operation.remote_key;
  }
}

}  // namespace hbmwire::transport
