// SPDX-License-Identifier: MIT
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>
#include <span>

#include "emulation/nic/state/shared_state.hpp"

namespace hbmwire::emulation::nic {

/// Where a datagram goes: what an address handle holds.
struct AddressVector {
  Gid sgid{};
  Gid dgid{};
  bool routable = true;  // RoCE v2: an IP header; else a GRH
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  std::uint32_t flow_label = 0;
};

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
  AddressVector address{};  // UD
  std::uint32_t remote_qpn = 0;
  std::uint32_t remote_qkey = 0;
  std::uint32_t remote_srqn = 0;      // XRC
  std::span<const ibv_sge> elements;  // with IBV_SEND_INLINE: plain addresses of this process

  [[nodiscard]] bool inlined() const { return (flags & IBV_SEND_INLINE) != 0; }
};

/// In wc.sl mlx5 hands on how a datagram came: 0xa for an IPv4 header, 0x9 for an IPv6 one, 0 for a
/// GRH; UCX reads the packet's kind from it.
std::uint8_t service_level_of(const AddressVector& address);

/// Queue pairs that may post an opcode, as bits (man ibv_post_send, the table of opcodes).
enum Posters : unsigned { kUd = 1, kUc = 2, kRc = 4, kXrc = 8 };

inline constexpr unsigned kAnyType = kUd | kUc | kRc | kXrc;
inline constexpr unsigned kConnected = kUc | kRc | kXrc;
inline constexpr unsigned kReliable = kRc | kXrc;

constexpr unsigned poster_of(std::uint32_t type) {
  switch (type) {
    case IBV_QPT_UD:
      return kUd;
    case IBV_QPT_UC:
      return kUc;
    case IBV_QPT_RC:
      return kRc;
    case IBV_QPT_XRC_SEND:
      return kXrc;
    default:
      return 0;
  }
}

/// What an opcode means, whatever the transport.
struct OpcodeTraits {
  ibv_wr_opcode opcode;
  unsigned posters;
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
    {IBV_WR_SEND, kAnyType, IBV_WC_SEND, "send", true, true, false, true, 0, 0},
    {IBV_WR_SEND_WITH_IMM, kAnyType, IBV_WC_SEND, "send", true, true, true, true, 0, 0},
    {IBV_WR_RDMA_WRITE, kConnected, IBV_WC_RDMA_WRITE, "write", false, false, false, true,
     IBV_ACCESS_REMOTE_WRITE, 0},
    {IBV_WR_RDMA_WRITE_WITH_IMM, kConnected, IBV_WC_RDMA_WRITE, "write", true, false, true, true,
     IBV_ACCESS_REMOTE_WRITE, 0},
    {IBV_WR_RDMA_READ, kReliable, IBV_WC_RDMA_READ, "read", false, false, false, false,
     IBV_ACCESS_REMOTE_READ, IBV_ACCESS_LOCAL_WRITE},
    {IBV_WR_ATOMIC_CMP_AND_SWP, kReliable, IBV_WC_COMP_SWAP, "atomic", false, false, false, false,
     IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_LOCAL_WRITE},
    {IBV_WR_ATOMIC_FETCH_AND_ADD, kReliable, IBV_WC_FETCH_ADD, "atomic", false, false, false, false,
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
