// SPDX-License-Identifier: MIT
#include "emulation/tests/conformance/outcomes.hpp"

namespace hbmwire::conformance {
namespace {

bool is_atomic(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

std::uint32_t& rkey_of(Scene& scene) {
  ibv_send_wr& request = scene.request;
  return is_atomic(scene.opcode) ? request.wr.atomic.rkey : request.wr.rdma.rkey;
}

std::uint64_t& remote_address_of(Scene& scene) {
  ibv_send_wr& request = scene.request;
  return is_atomic(scene.opcode) ? request.wr.atomic.remote_addr : request.wr.rdma.remote_addr;
}

/// Makes a region over the whole buffer of a side, but in another protection domain.
const ibv_mr& make_region_elsewhere(Scene& scene, Side& side) {
  scene.other_pd = scene.nic.make_pd();
  scene.other_mr =
      scene.nic.make_mr(scene.other_pd.get(), side.buffer.data(), side.buffer.size(), kAllAccess);
  return *scene.other_mr;
}

void make_own_key_wrong(Scene& scene) { scene.elements[0].lkey ^= kKeySpoiler; }

void make_own_domain_wrong(Scene& scene) {
  scene.elements[0].lkey = make_region_elsewhere(scene, scene.link.a).lkey;
}

/// The last of the 8 bytes is past the end.
void move_own_past_end(Scene& scene) {
  scene.elements = {scene.link.a.element(scene.link.a.buffer.size() - 7, 8)};
}

void make_peer_key_wrong(Scene& scene) { rkey_of(scene) ^= kKeySpoiler; }

void make_both_keys_wrong(Scene& scene) {
  make_own_key_wrong(scene);
  make_peer_key_wrong(scene);
}

void make_peer_domain_wrong(Scene& scene) {
  rkey_of(scene) = make_region_elsewhere(scene, scene.link.b).rkey;
}

/// The last of the 8 bytes is past the end. An atomic has the first aligned address that is at or
/// past the end.
void move_peer_past_end(Scene& scene) {
  std::uint64_t& address = remote_address_of(scene);
  const std::uint64_t end = address + scene.link.b.buffer.size();
  address = is_atomic(scene.opcode) ? (end + 7) & ~std::uint64_t{7} : end - 7;
}

/// Sends no bytes, so that the wrong keys do not matter.
void empty_with_wrong_keys(Scene& scene) {
  scene.elements[0].length = 0;
  scene.elements[0].lkey ^= kKeySpoiler;
  if (scene.opcode != IBV_WR_SEND && scene.opcode != IBV_WR_SEND_WITH_IMM)
    rkey_of(scene) ^= kKeySpoiler;
}

/// The receive has room for 7 of the 8 bytes.
void shorten_receive(Scene& scene) { scene.receive[0].length = scene.link.headroom() + 7; }

void make_receive_key_wrong(Scene& scene) { scene.receive[0].lkey ^= kKeySpoiler; }

void post_no_receive(Scene& scene) { scene.has_receive = false; }

void misalign(Scene& scene) { remote_address_of(scene) += 4; }

void halve(Scene& scene) { scene.elements[0].length = 4; }

void double_length(Scene& scene) { scene.elements[0].length = 16; }

void reset_peer(Scene& scene) {
  EXPECT_EQ(scene.link.b.to(IBV_QPS_RESET), 0);
  scene.has_receive = false;  // none can be posted in RESET
}

void fail_peer(Scene& scene) {
  EXPECT_EQ(scene.link.b.to(IBV_QPS_ERR), 0);
  scene.has_receive = false;  // it would be flushed
}

void fail_own_qp(Scene& scene) { EXPECT_EQ(scene.link.a.to(IBV_QPS_ERR), 0); }

void exceed_packet(Scene& scene) {
  const std::uint32_t length = scene.nic.mtu_bytes() + 1;
  scene.elements[0].length = length;
  scene.receive[0].length = scene.link.headroom() + length;
}

void make_qkey_wrong(Scene& scene) { scene.request.wr.ud.remote_qkey = kQkey + 1; }

/// More than any device grants, because inline data lies in the send queue.
void make_inline_too_long(Scene& scene) {
  scene.elements[0].length = 30000;
  scene.request.send_flags |= IBV_SEND_INLINE;
}

}  // namespace

std::vector<Fault> faults() {
  constexpr int kLocalReadAlone = 0;
  const Timing no_retries{.rnr_retry = 0, .min_rnr_timer = 1};
  return {
      {"Nothing"},
      {"OwnKeyWrong", {}, make_own_key_wrong},
      {"OwnDomainWrong", {}, make_own_domain_wrong},
      {"OwnRangePastEnd", {}, move_own_past_end},
      {"OwnMemoryReadOnly", {.a = {.mr_access = kLocalReadAlone}}},
      {"PeerKeyWrong", {}, make_peer_key_wrong},
      {"PeerDomainWrong", {}, make_peer_domain_wrong},
      {"PeerRangePastEnd", {}, move_peer_past_end},
      {"PeerRightMissing", {.b = {.mr_access = IBV_ACCESS_LOCAL_WRITE}}},
      {"PeerQpRefuses", {.b = {.qp_access = 0}}},
      {"PeerKeyWrongOfSrq", {.b = {.with_srq = true}}, make_peer_key_wrong},
      {"BothKeysWrong", {}, make_both_keys_wrong},
      {"NoBytesWrongKeys", {}, empty_with_wrong_keys},
      {"ReceiveTooSmall", {}, shorten_receive},
      {"ReceiveTooSmallOfSrq", {.b = {.with_srq = true}}, shorten_receive},
      {"ReceiveKeyWrong", {}, make_receive_key_wrong},
      {"ReceiveMemoryReadOnly", {.b = {.mr_access = IBV_ACCESS_REMOTE_READ}}},
      {"NoReceive", {.timing = no_retries}, post_no_receive},
      {"AtomicMisaligned", {}, misalign},
      {"AtomicOf4Bytes", {}, halve},
      {"AtomicOf16Bytes", {}, double_length},
      {"PeerReset", {}, reset_peer},
      {"PeerInError", {}, fail_peer},
      {"OwnQpInError", {}, fail_own_qp},
      {"QkeyWrong", {}, make_qkey_wrong},
      {"LongerThanAPacket", {}, exceed_packet},
      {"InlineTooLong", {}, make_inline_too_long},
  };
}

}  // namespace hbmwire::conformance
