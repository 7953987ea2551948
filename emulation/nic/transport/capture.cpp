// SPDX-License-Identifier: MIT
#include "emulation/nic/transport/capture.hpp"

#include "emulation/nic/queue/sender.hpp"
#include "emulation/nic/transport/attempt.hpp"

namespace hbmwire::emulation::nic {
namespace {

SegmentList list_of(std::span<std::byte> bytes) {
  SegmentList list;
  list.add(plain_segment(reinterpret_cast<std::uint64_t>(bytes.data()), bytes.size()));
  return list;
}

}  // namespace

ibv_wc_status capture(Process& process, Sender& sender, const Request& request,
                      std::vector<std::byte>& payload) {
  Attempt own(process, sender, request, sender.record(), 0);  // only gathers: no responder is used
  if (const ibv_wc_status status = own.gather(); status != IBV_WC_SUCCESS) return status;
  payload.resize(own.bytes());
  return move_bytes(list_of(payload), own.local()) == 0 ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR;
}

Outcome store_answer(Process& process, Sender& sender, const Request& request,
                     std::span<std::byte> answer) {
  Attempt own(process, sender, request, sender.record(), 0);
  const ibv_wc_status status = own.gather();
  return status != IBV_WC_SUCCESS ? Outcome::done(status) : own.store_answer(list_of(answer));
}

bool lands_relaxed(Process& process, Sender& sender, const Request& request) {
  const std::uint32_t dest_qpn = sender.connection.dest_qpn;
  QpRecord& responder = process.shared().qps[qp_index(dest_qpn)];
  Attempt attempt(process, sender, request, responder, dest_qpn);
  if (sender.record().type != IBV_QPT_RC || attempt.gather() != IBV_WC_SUCCESS) return false;
  const FavouredHold guard(responder.responder, Place::responder);
  if (!guard.held() || !attempt.reachable() || (responder.access & IBV_ACCESS_REMOTE_WRITE) == 0)
    return false;
  Segment segment{};
  return resolve(process, sender.cache, {responder.owner.load(), responder.pd},
                 {request.rkey, request.remote_address, attempt.bytes(), IBV_ACCESS_REMOTE_WRITE,
                  dest_qpn},
                 segment) &&
         segment.relaxed;
}

}  // namespace hbmwire::emulation::nic
