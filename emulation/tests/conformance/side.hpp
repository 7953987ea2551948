// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "emulation/tests/conformance/conformance.hpp"

namespace hbmwire::conformance {

/// The Q_Key of the suite's UD QPs. It is not a controlled one: its most significant bit is clear.
inline constexpr std::uint32_t kQkey = 0x11111111;

/// Makes a valid key a wrong one, by ^=.
inline constexpr std::uint32_t kKeySpoiler = 0x55;

/// A UD receive begins with the global routing header, or with 40 undefined bytes.
inline constexpr std::uint32_t kGrhBytes = 40;

struct SideOptions {
  ibv_qp_type type = IBV_QPT_RC;
  std::uint32_t send_depth = 16;
  std::uint32_t recv_depth = 16;
  std::uint32_t sge = 4;
  std::uint32_t inline_bytes = 64;
  bool signal_all = false;
  int cq_depth = 64;
  int mr_access = kAllAccess;
  unsigned qp_access = kRemoteAccess;
  std::size_t bytes = 32768;
  bool with_srq = false;
  std::uint32_t srq_depth = 16;
  ibv_srq* shared_srq = nullptr;        // an SRQ that other sides use too
  ibv_comp_channel* channel = nullptr;  // of both CQs
  std::uint64_t send_ops = 0;           // IBV_QP_EX_WITH_*: the QP is created by ibv_create_qp_ex
  ibv_pd* pd = nullptr;                 // null: the NIC's own
};

/// The times that a requester waits.
struct Timing {
  std::uint8_t timeout = settings().ack_timeout;
  std::uint8_t retry_count = 1;
  std::uint8_t rnr_retry = 7;  // for ever: a late receive is not an error
  std::uint8_t min_rnr_timer = 1;
};

/// The facts about a side that its peer needs.
struct Address {
  std::uint32_t qpn = 0;
  std::uint32_t srqn = 0;  // for XRC
  std::uint64_t buffer = 0;
  std::uint32_t rkey = 0;
};

/// A queue pair with its CQs, a registered buffer and, if it has one, its shared receive queue.
class Side {
 public:
  Side(const Nic& nic, const SideOptions& options);

  [[nodiscard]] Address address() const;

  /// Valid values for every attribute, with `peer` as the other end.
  [[nodiscard]] ibv_qp_attr attributes(const Address& peer, const Timing& timing = {}) const;

  // The steps of connecting, with the attributes that the type requires. Return ibv_modify_qp's
  // result.
  int to_init();
  int to_rtr(const Address& peer, const Timing& timing = {});
  int to_rts(const Timing& timing = {});
  /// Changes the state and, if `mask` names it, the notification of a drained send queue.
  int to(ibv_qp_state state, int mask = 0);
  int modify(ibv_qp_attr values, int mask);
  void connect(const Address& peer, const Timing& timing = {});

  /// A range of the buffer, for a scatter/gather list.
  [[nodiscard]] ibv_sge element(std::size_t offset, std::uint32_t length) const;

  /// A request that reaches `peer`. The caller may change it before post().
  [[nodiscard]] ibv_send_wr request(ibv_wr_opcode opcode, std::uint64_t id, const Address& peer,
                                    std::size_t remote_offset = 0) const;

  /// ibv_post_send of the request with these elements. Returns its result.
  int post(ibv_send_wr request, std::vector<ibv_sge> elements);

  int post(const ibv_send_wr& request, std::size_t offset, std::uint32_t length) {
    return post(request, {element(offset, length)});
  }

  /// Posts a receive to the QP's receive queue, or to its SRQ.
  int receive(std::uint64_t id, std::vector<ibv_sge> elements);

  int receive(std::uint64_t id, std::size_t offset, std::uint32_t length) {
    return receive(id, {element(offset, length)});
  }

  /// Expects the next completion to have this id and status. Returns it, or an empty one if none
  /// comes in time.
  ibv_wc expect_sent(std::uint64_t id, ibv_wc_status status = IBV_WC_SUCCESS);
  ibv_wc expect_received(std::uint64_t id, ibv_wc_status status = IBV_WC_SUCCESS);

  /// Expects that no request completes for a short while.
  void expect_silence(const Cq& cq) const;

  [[nodiscard]] ibv_qp_state state() const;
  [[nodiscard]] ibv_qp_attr query() const;

  /// Fills bytes that differ from place to place, so that a byte at a wrong place is noticed.
  void fill(std::size_t offset, std::size_t length, unsigned char seed);
  void expect_filled(std::size_t offset, std::size_t length, unsigned char seed) const;

  /// The word at an offset of the buffer that is a multiple of 8, for atomics.
  [[nodiscard]] std::uint64_t* word(std::size_t offset);

  /// The SRQ for receives; null: the QP's own queue.
  [[nodiscard]] ibv_srq* receive_pool() const {
    return options.shared_srq != nullptr ? options.shared_srq : srq.get();
  }

  const SideOptions options;
  std::vector<unsigned char> buffer;
  Mr mr;
  Cq send_cq;
  Cq recv_cq;
  Xrcd xrcd;
  Srq srq;
  Ah ah;  // to this port, for datagrams
  Qp qp;

 private:
  void make_srq();
  Qp make_qp();
  ibv_wc expect(const Cq& cq, const char* queue, std::uint64_t id, ibv_wc_status status);

  [[nodiscard]] bool is_ud() const { return options.type == IBV_QPT_UD; }

  const Nic& nic_;
  ibv_pd* pd_;
};

/// The next completion of a CQ, if one comes within `patience`.
std::optional<ibv_wc> wait_completion(ibv_cq* cq, std::chrono::milliseconds patience = kPatience);

}  // namespace hbmwire::conformance
