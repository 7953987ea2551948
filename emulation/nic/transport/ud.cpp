// SPDX-License-Identifier: MIT
#include "emulation/common/fault_step.hpp"
#include "emulation/nic/queue/multicast.hpp"
#include "emulation/nic/queue/qp_table.hpp"
#include "emulation/nic/queue/receive.hpp"
#include "emulation/nic/queue/sender.hpp"
#include "emulation/nic/state/ports.hpp"
#include "emulation/nic/transport/attempt.hpp"
#include "emulation/nic/transport/counting.hpp"
#include "emulation/nic/transport/datagram_header.hpp"
#include "emulation/nic/transport/transport.hpp"

/// Unreliable datagrams: each message names its queue pair or a multicast group. A message is
/// dropped silently if there is no such QP, the Q_Key differs or no receive is posted.
namespace hbmwire::emulation::nic {
namespace {

constexpr std::uint32_t kMulticastQpn = 0xffffff;

/// IBTA vol. 1, 10.2.5: a Q_Key with the highest bit set stands for the sender's own Q_Key.
std::uint32_t qkey_of(const Sender& sender, const Request& request) {
  constexpr std::uint32_t kOwn = 0x80000000;
  return (request.remote_qkey & kOwn) != 0 ? sender.record().qkey : request.remote_qkey;
}

class DatagramDelivery {
 public:
  DatagramDelivery(Process& process, Sender& sender, const Request& request)
      : process_(process), sender_(sender), request_(request) {}

  /// Delivers the message to a QP; with `by_address` only if the QP is at the request's address.
  /// Returns the port where the message arrives; 0: it does not arrive.
  std::uint32_t deliver_to(std::uint32_t qpn, bool by_address) {
    QpRecord& responder = process_.shared().qps[qp_index(qpn)];
    if (qpn == 0 || responder.qpn.load() != qpn || !process_.alive(responder.owner.load()))
      return 0;
    Attempt attempt(process_, sender_, request_, responder, qpn);
    attempt.gather();  // execute_ud() has checked the elements
    DatagramHeader bytes = make_datagram_header(request_.address, attempt.bytes());
    SegmentList header;
    header.add(plain_segment(reinterpret_cast<std::uint64_t>(bytes.data()), bytes.size()));
    fault_step("located");
    const FavouredHold guard(responder.responder, Place::responder);
    fault_step("responder_locked");
    const bool taken = guard.held() && responder.qpn.load() == qpn &&
                       responder.type == IBV_QPT_UD && nic::receives(responder) &&
                       attempt.linked() && responder.qkey == qkey_of(sender_, request_) &&
                       (!by_address || is_at(process_.shared(), responder, request_.address.to));
    if (!taken) return 0;
    const ReceiveSource source = receives_of(process_.shared(), responder);
    ReceiveEntry receive;
    if (take_receive(process_, source, receive) == Taking::taken) {
      attempt.send(source, receive, header);
    } else {
      count(process_, responder.port, PortCounter::out_of_buffer);
    }
    return responder.port;
  }

 private:
  Process& process_;
  Sender& sender_;
  const Request& request_;
};

}  // namespace

Outcome execute_ud(Process& process, Sender& sender, const Request& request) {
  // Checks the requester's own elements, which does not depend on the destination.
  Attempt own(process, sender, request, sender.record(), 0);
  if (const ibv_wc_status status = own.gather(); status != IBV_WC_SUCCESS)
    return Outcome::done(status);
  DatagramDelivery delivery(process, sender, request);
  const Outcome sent = Outcome::done(IBV_WC_SUCCESS, own.bytes());
  if (request.remote_qpn == kMulticastQpn) {
    // The group's address is no QP's own, so members are not compared with it.
    count_multicast_sent(process, sender.record().port, own.bytes());
    for (const std::uint32_t qpn : multicast_members(process, request.address.to))
      count_multicast_received(process, delivery.deliver_to(qpn, false), own.bytes());
  } else {
    const std::uint32_t port = delivery.deliver_to(request.remote_qpn, true);
    count_unacknowledged(process, sender, port, request, sent);
  }
  return sent;
}

}  // namespace hbmwire::emulation::nic
