// SPDX-License-Identifier: MIT
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>
#include <span>

#include "emulation/common/faults.hpp"
#include "emulation/nic/memory/window.hpp"
#include "emulation/nic/state/shared_state.hpp"

namespace hbmwire::emulation::nic {

/// The destination of a datagram, as an address handle holds it.
struct AddressVector {
  Gid sgid{};
  Destination to{};
  bool routable = true;            // RoCE v2: the packet has an IP header; false: a GRH
  std::uint8_t service_level = 0;  // InfiniBand
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  std::uint32_t flow_label = 0;
};

/// A send request on its way through a transport. It does not own its elements.
struct Request {
  std::uint64_t wr_id = 0;
  std::uint64_t index = 0;  // its number among all requests of the queue
  ibv_wr_opcode opcode = IBV_WR_SEND;
  unsigned flags = 0;
  std::uint32_t immediate = 0;
  std::uint32_t rkey = 0;
  std::uint64_t remote_address = 0;
  std::uint64_t compare_add = 0;
  std::uint64_t swap = 0;
  AddressVector address{};  // for UD
  std::uint32_t remote_qpn = 0;
  std::uint32_t remote_qkey = 0;
  std::uint32_t remote_srqn = 0;  // for XRC
  std::uint32_t invalidate_key = 0;
  Binding binding{};
  const OperationFaults* faults = nullptr;  // null: none; the sender's, until the request is over
  std::span<const ibv_sge> elements;        // with IBV_SEND_INLINE plain addresses of this process

  bool repeats = false;  // a READ that is executed a second time, only to fetch its answer

  [[nodiscard]] bool inlined() const { return (flags & IBV_SEND_INLINE) != 0; }
};

inline std::uint64_t bytes_of(std::span<const ibv_sge> elements) {
  std::uint64_t bytes = 0;
  for (const ibv_sge& element : elements) bytes += element.length;
  return bytes;
}

/// The value of wc.sl for a datagram. On InfiniBand it is the service level. On Ethernet it tells
/// the kind of header, as with mlx5, because UCX reads it: 0xa for IPv4, 0x9 for IPv6, 0 for a GRH.
std::uint8_t service_level_of(const AddressVector& address);

/// The queue pair types that may post an opcode, as bits (man ibv_post_send, the table of opcodes).
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

/// The properties of an opcode, which do not depend on the transport.
struct OpcodeTraits {
  ibv_wr_opcode opcode;
  unsigned posters;
  std::uint64_t send_op;  // its bit in ibv_qp_init_attr_ex::send_ops_flags
  ibv_wc_opcode completion;
  const char* fault_name = "";    // `op=` of a fault plan's rule
  bool consumes_receive = false;  // SENDs, and WRITE with immediate
  bool sends_payload = false;     // into a receive; false: to or from remote memory
  bool has_immediate = false;
  bool invalidates = false;  // invalidates a window of the responder
  bool may_be_inline = false;
  bool stays_here = false;     // no packet is sent for it
  unsigned remote_access = 0;  // rights that the responder's QP and MR must grant
  unsigned local_access = 0;   // rights that the requester's own MRs must grant

  [[nodiscard]] constexpr bool is_atomic() const {
    return remote_access == IBV_ACCESS_REMOTE_ATOMIC;
  }

  /// Whether it is a READ or an atomic.
  [[nodiscard]] constexpr bool fetches() const { return local_access != 0; }
};

constexpr OpcodeTraits send_traits(ibv_wr_opcode opcode, unsigned posters, std::uint64_t send_op) {
  OpcodeTraits traits{opcode, posters, send_op, IBV_WC_SEND, "send"};
  traits.consumes_receive = traits.sends_payload = traits.may_be_inline = true;
  traits.has_immediate = opcode == IBV_WR_SEND_WITH_IMM;
  traits.invalidates = opcode == IBV_WR_SEND_WITH_INV;
  return traits;
}

constexpr OpcodeTraits write_traits(ibv_wr_opcode opcode, std::uint64_t send_op) {
  OpcodeTraits traits{opcode, kConnected, send_op, IBV_WC_RDMA_WRITE, "write"};
  traits.consumes_receive = traits.has_immediate = opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  traits.may_be_inline = true;
  traits.remote_access = IBV_ACCESS_REMOTE_WRITE;
  return traits;
}

/// Traits of READs and atomics, which store an answer.
constexpr OpcodeTraits fetch_traits(ibv_wr_opcode opcode, std::uint64_t send_op,
                                    ibv_wc_opcode completion) {
  const bool read = opcode == IBV_WR_RDMA_READ;
  OpcodeTraits traits{opcode, kReliable, send_op, completion, read ? "read" : "atomic"};
  traits.remote_access = read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_ATOMIC;
  traits.local_access = IBV_ACCESS_LOCAL_WRITE;
  return traits;
}

constexpr OpcodeTraits local_traits(ibv_wr_opcode opcode, std::uint64_t send_op,
                                    ibv_wc_opcode completion) {
  OpcodeTraits traits{opcode, kConnected, send_op, completion};
  traits.stays_here = true;
  return traits;
}

inline constexpr std::array<OpcodeTraits, 10> kOpcodes{{
    send_traits(IBV_WR_SEND, kAnyType, IBV_QP_EX_WITH_SEND),
    send_traits(IBV_WR_SEND_WITH_IMM, kAnyType, IBV_QP_EX_WITH_SEND_WITH_IMM),
    send_traits(IBV_WR_SEND_WITH_INV, kConnected, IBV_QP_EX_WITH_SEND_WITH_INV),
    write_traits(IBV_WR_RDMA_WRITE, IBV_QP_EX_WITH_RDMA_WRITE),
    write_traits(IBV_WR_RDMA_WRITE_WITH_IMM, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM),
    fetch_traits(IBV_WR_RDMA_READ, IBV_QP_EX_WITH_RDMA_READ, IBV_WC_RDMA_READ),
    fetch_traits(IBV_WR_ATOMIC_CMP_AND_SWP, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, IBV_WC_COMP_SWAP),
    fetch_traits(IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
                 IBV_WC_FETCH_ADD),
    local_traits(IBV_WR_LOCAL_INV, IBV_QP_EX_WITH_LOCAL_INV, IBV_WC_LOCAL_INV),
    local_traits(IBV_WR_BIND_MW, IBV_QP_EX_WITH_BIND_MW, IBV_WC_BIND_MW),
}};

/// For each opcode its index in kOpcodes; kOpcodes.size() for opcodes that the NIC does not know.
inline constexpr auto kOpcodePlaces = [] {
  std::array<std::uint8_t, 16> places{};
  places.fill(kOpcodes.size());
  for (std::size_t i = 0; i < kOpcodes.size(); ++i)
    places.at(static_cast<std::size_t>(kOpcodes[i].opcode)) = static_cast<std::uint8_t>(i);
  return places;
}();

/// Returns null for an opcode that the NIC does not know.
constexpr const OpcodeTraits* traits_of(ibv_wr_opcode opcode) {
  const auto index = static_cast<std::size_t>(opcode);
  if (index >= kOpcodePlaces.size() || kOpcodePlaces[index] == kOpcodes.size()) return nullptr;
  return &kOpcodes[kOpcodePlaces[index]];
}

/// The IBV_QP_EX_WITH_* flags that a QP of a type may be created with, on a NIC with or without
/// atomics.
constexpr std::uint64_t send_ops_of(std::uint32_t type, bool atomics) {
  std::uint64_t ops = 0;
  for (const OpcodeTraits& traits : kOpcodes) {
    if (!atomics && traits.is_atomic()) continue;
    if ((traits.posters & poster_of(type)) != 0) ops |= traits.send_op;
  }
  return ops;
}

/// The reason why a request has to wait.
enum class Wait : std::uint8_t { none, unreachable, receiver_not_ready };

/// The end of an attempt: a completion status, or a reason to wait.
struct Outcome {
  Wait wait = Wait::none;
  ibv_wc_status status = IBV_WC_SUCCESS;
  std::uint64_t bytes = 0;
  std::uint64_t rnr_timer_ns = 0;  // the responder's timer, if the receiver is not ready
  std::uint32_t scattered = 0;     // index of the ScatteredRecord with its answer

  static Outcome done(ibv_wc_status status, std::uint64_t bytes = 0) {
    return {Wait::none, status, bytes};
  }
};

}  // namespace hbmwire::emulation::nic
