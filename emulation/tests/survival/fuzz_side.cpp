// SPDX-License-Identifier: MIT
#include "emulation/tests/survival/fuzz_side.hpp"

#include "emulation/tests/survival/bounded.hpp"
#include "emulation/tests/survival/demand.hpp"

namespace hbmwire::test {
namespace {

constexpr std::uint64_t kReceiveId = 1000;

}  // namespace

FuzzSide::FuzzSide(const Area& area) : area_(area), endpoint_({.max_inline = 256}) {
  other_pd_.reset(ibv_alloc_pd(endpoint_.context.get()));
  whole_.reset((ibv_reg_mr)(endpoint_.pd.get(), reinterpret_cast<void*>(area.base), kAreaBytes,
                            kAllAccess | IBV_ACCESS_MW_BIND));
  demand(other_pd_ != nullptr && whole_ != nullptr, "the area can't be registered");
  // The number of the grant, the first byte in the area, and the byte behind the last.
  grant_region(0, 4096, 12288, kAllAccess);
  grant_region(1, 12000, 20000, kAllAccess);
  grant_region(2, 20480, 28672, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
  grant_region(3, 28672, 30000, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  grant_region(4, 30000, 34000, 0);
  // The key of a region in another protection domain grants nothing, nor does that of a region that
  // is deregistered here.
  Grant& foreign = grants_.all[5];
  regions_.emplace_back(
      (ibv_reg_mr)(other_pd_.get(), reinterpret_cast<void*>(area.base + 36864), 4096, kAllAccess));
  foreign = {regions_.back()->rkey, area.base + 36864, 4096, 36864, kAllAccess, false, false};
  grant_region(6, 40960, 45056, kAllAccess);
  regions_.pop_back();
  grants_.all[6].local = grants_.all[6].remote = false;
  // A region of a file, which the peer's NIC maps; its addresses begin at 0x100000.
  regions_.emplace_back(
      ibv_reg_dmabuf_mr(endpoint_.pd.get(), 45056, 8192, 0x100000, area.fd, kAllAccess));
  demand(regions_.back() != nullptr, "ibv_reg_dmabuf_mr");
  grants_.all[7] = {regions_.back()->rkey, 0x100000, 8192, 45056, kAllAccess, true, true};
  grants_.all[10] = {whole_->rkey, area.base, kAreaBytes, 0, kAllAccess, true, true};
  for (std::size_t i = 0; i < 2; ++i)
    windows_.emplace_back(ibv_alloc_mw(endpoint_.pd.get(), IBV_MW_TYPE_1));
  demand(windows_.back() != nullptr, "ibv_alloc_mw");
}

void FuzzSide::grant_region(std::size_t at, std::uint64_t from, std::uint64_t to, int access) {
  const std::uint64_t address = area_.base + from;
  regions_.emplace_back(
      (ibv_reg_mr)(endpoint_.pd.get(), reinterpret_cast<void*>(address), to - from, access));
  demand(regions_.back() != nullptr, "ibv_reg_mr");
  grants_.all[at] = {regions_.back()->rkey, address, to - from, from, access, true, true};
}

void FuzzSide::grant_window(std::size_t at, std::uint64_t from, std::uint64_t to, int access) {
  const std::size_t window = at - 8;
  ibv_mw_bind bind{};
  bind.wr_id = 1;
  bind.send_flags = IBV_SEND_SIGNALED;
  bind.bind_info = {whole_.get(), area_.base + from, to - from, static_cast<unsigned>(access)};
  demand(ibv_bind_mw(endpoint_.qp.get(), windows_[window].get(), &bind) == 0, "ibv_bind_mw");
  demand(wait_for_send() == IBV_WC_SUCCESS, "a bind");
  grants_.all[at] = {
      windows_[window]->rkey, area_.base + from, to - from, from, access, false, to != from};
}

int FuzzSide::connect(const Address& peer) {
  int error = endpoint_.to(IBV_QPS_RESET);
  if (error == 0) error = endpoint_.to_init();
  if (error == 0) error = endpoint_.to_rtr(peer, {.min_rnr_timer = 1});
  if (error == 0) error = endpoint_.to_rts({.timeout = 14, .retry_count = 7, .rnr_retry = 1});
  return error;
}

int FuzzSide::post_receive(const FuzzRequest& request) {
  std::array<ibv_sge, kFuzzElements> elements = request.sge;
  ibv_recv_wr receive{};
  receive.wr_id = kReceiveId;
  receive.sg_list = elements.data();
  receive.num_sge = static_cast<int>(request.elements);
  ibv_recv_wr* bad = nullptr;
  return ibv_post_recv(endpoint_.qp.get(), &receive, &bad);
}

int FuzzSide::post_send(const FuzzRequest& request) {
  std::array<ibv_sge, kFuzzElements> elements = request.sge;
  ibv_send_wr send{};
  send.wr_id = 1;
  send.opcode = request.opcode;
  send.send_flags = request.flags | IBV_SEND_SIGNALED;
  send.sg_list = elements.data();
  send.num_sge = static_cast<int>(request.elements);
  if (request.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
      request.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    send.wr.atomic = {request.remote_address, request.compare_add, request.swap, request.rkey};
  } else {
    send.wr.rdma = {request.remote_address, request.rkey};
  }
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(endpoint_.qp.get(), &send, &bad);
}

/// Waits for the request's completion. Other completions are those of receives.
ibv_wc_status FuzzSide::wait_for_send() {
  while (const std::optional<ibv_wc> completion = endpoint_.wait(std::chrono::seconds(30))) {
    if (completion->wr_id != kReceiveId) return completion->status;
  }
  throw std::runtime_error("a request does not end");
}

Reply FuzzSide::execute(const Command& command) {
  Reply reply;
  switch (command.kind) {
    case Command::connect:
      reply.error = connect(command.peer);
      break;
    case Command::receive:
      reply.error = post_receive(command.request);
      break;
    case Command::send:
      reply.error = post_send(command.request);
      if (reply.error == 0) reply.status = wait_for_send();
      break;
    case Command::rebind:
      grant_window(8 + command.window, command.from, command.to,
                   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
      break;
    case Command::end:
      break;
  }
  reply.grants = grants_;
  return reply;
}

}  // namespace hbmwire::test
