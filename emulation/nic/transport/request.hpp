// SPDX-License-Identifier: MIT
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>
#include <span>

namespace hbmwire::emulation::nic {

/// One send request on its way through a transport. It does not own its elements.
struct Request {
  std::uint64_t wr_id = 0;
  std::uint64_t index = 0;  // its place among all requests of the queue
  ibv_wr_opcode opcode = IBV_WR_SEND;
  unsigned flags = 0;
  std::uint32_t immediate = 0;
  std::uint32_t rkey = 0;
  std::uint64_t remote_address = 0;
  std::uint64_t compare_add = 0;
  std::uint64_t swap = 0;
  std::span<const ibv_sge> elements;  // with IBV_SEND_INLINE: plain addresses of this process

  [[nodiscard]] bool inlined() const { return (flags & IBV_SEND_INLINE) != 0; }
};

/// What an opcode means, whatever the transport.
struct OpcodeTraits {
  ibv_wr_opcode opcode;
  ibv_wc_opcode completion;
  const char* fault_name;  // `op=` of a flip rule
  bool consumes_receive;   // SEND, and WRITE with immediate
  bool sends_payload;      // into a receive; else into or out of remote memory
  bool has_immediate;
  bool may_be_inline;
  unsigned remote_access;  // what QP and MR of the responder must allow
  unsigned local_access;   // what the requester's own MRs must allow
};

inline constexpr std::array<OpcodeTraits, 7> kOpcodes{{
    {IBV_WR_SEND, IBV_WC_SEND, "send", true, true, false, true, 0, 0},
    {IBV_WR_SEND_WITH_IMM, IBV_WC_SEND, "send", true, true, true, true, 0, 0},
    {IBV_WR_RDMA_WRITE, IBV_WC_RDMA_WRITE, "write", false, false, false, true,
     IBV_ACCESS_REMOTE_WRITE, 0},
    {IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WC_RDMA_WRITE, "write", true, false, true, true,
     IBV_ACCESS_REMOTE_WRITE, 0},
    {IBV_WR_RDMA_READ, IBV_WC_RDMA_READ, "read", false, false, false, false, IBV_ACCESS_REMOTE_READ,
     IBV_ACCESS_LOCAL_WRITE},
    {IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WC_COMP_SWAP, "atomic", false, false, false, false,
     IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_LOCAL_WRITE},
    {IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_FETCH_ADD, "atomic", false, false, false, false,
     IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_LOCAL_WRITE},
}};

/// Null for an opcode the NIC does not know.
constexpr const OpcodeTraits* traits_of(ibv_wr_opcode opcode) {
  for (const OpcodeTraits& traits : kOpcodes) {
    if (traits.opcode == opcode) return &traits;
  }
  return nullptr;
}

/// Why a request can't run yet.
enum class Wait : std::uint8_t { none, unreachable, receiver_not_ready };

/// How an attempt ended: with a completion status, or with something to wait for.
struct Outcome {
  Wait wait = Wait::none;
  ibv_wc_status status = IBV_WC_SUCCESS;
  std::uint64_t bytes = 0;
  std::uint64_t rnr_timer_ns = 0;  // of the responder, when the receiver is not ready

  static Outcome done(ibv_wc_status status, std::uint64_t bytes = 0) {
    return {Wait::none, status, bytes, 0};
  }
};

}  // namespace hbmwire::emulation::nic
