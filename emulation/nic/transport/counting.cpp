// SPDX-License-Identifier: MIT
#include "emulation/nic/transport/counting.hpp"

#include <algorithm>

#include "emulation/nic/queue/sender.hpp"
#include "emulation/nic/state/ports.hpp"

namespace hbmwire::emulation::nic {
namespace {

void count_naks(Process& process, const Sender& sender, std::uint64_t naks) {
  const QpRecord& responder = process.shared().qps[qp_index(sender.connection.dest_qpn)];
  count(process, responder.port, PortCounter::out_of_buffer, naks);
  count(process, sender.record().port, PortCounter::rnr_nak_retry_err, naks);
}

/// The counters of the requester's queue pair, in its own cache lines, for the data path. Traffic
/// with another peer port is added to the ports first, and the counters are marked as used.
Traffic& traffic_of(Process& process, Sender& sender, std::uint32_t peer_port) {
  QpRecord& record = sender.record();
  Traffic& traffic = record.traffic;
  if (traffic.peer_port != peer_port) {
    drain_traffic(process, record);
    traffic.peer_port = peer_port;
  }
  if (traffic.noted == Traffic::nothing) traffic.noted = Traffic::counted;
  return traffic;
}

void count_arrival(Traffic& traffic, unsigned remote_access) {
  traffic.writes += remote_access == IBV_ACCESS_REMOTE_WRITE ? 1 : 0;
  traffic.reads += remote_access == IBV_ACCESS_REMOTE_READ ? 1 : 0;
  traffic.atomics += remote_access == IBV_ACCESS_REMOTE_ATOMIC ? 1 : 0;
}

/// An MTU of 0 means a datagram: one packet.
std::uint64_t packets_of(std::uint64_t bytes, std::uint64_t mtu) {
  return bytes <= mtu || mtu == 0 ? 1 : (bytes + mtu - 1) / mtu;
}

void count_message(Traffic& traffic, bool fetches, std::uint64_t bytes, std::uint64_t mtu) {
  const std::uint64_t packets = packets_of(bytes, mtu);
  if (fetches) {
    traffic.xmit_packets += 1;
    traffic.rcv_bytes += bytes;
    traffic.rcv_packets += packets;
  } else {
    traffic.xmit_bytes += bytes;
    traffic.xmit_packets += packets;
  }
}

}  // namespace

void count_outcome(Process& process, Sender& sender, std::uint32_t responder_port,
                   const Request& request, const Outcome& outcome) {
  if (outcome.wait != Wait::none) return;
  const OpcodeTraits& traits = *traits_of(request.opcode);
  Traffic& traffic = traffic_of(process, sender, responder_port);
  switch (outcome.status) {
    case IBV_WC_SUCCESS:
      count_message(traffic, traits.fetches(), outcome.bytes, sender.connection.path_mtu_bytes);
      break;
    case IBV_WC_REM_ACCESS_ERR:
      count(process, responder_port, PortCounter::resp_remote_access_errors);
      count(process, sender.record().port, PortCounter::req_remote_access_errors);
      break;
    case IBV_WC_REM_INV_REQ_ERR:
      count(process, sender.record().port, PortCounter::req_remote_invalid_request);
      break;
    case IBV_WC_LOC_PROT_ERR:
      if (!traits.fetches()) return;
      break;  // the request arrived, and the answer came back
    default:
      return;  // found by the requester: nothing was sent
  }
  count_arrival(traffic, traits.remote_access);
}

void announce_traffic(Process& process, Sender& sender) {
  sender.record().traffic.noted = Traffic::known;
  process.add_metered(sender.shared());
  note_port(process, sender.record().port);  // the helper thread collects the traffic too
}

void count_unacknowledged(Process& process, Sender& sender, std::uint32_t to,
                          const Request& request, const Outcome& sent) {
  const std::uint32_t here = sender.record().port;
  if (link_is_up(process.shared(), here)) {
    count_outcome(process, sender, to, request, sent);
  } else {
    count(process, here, PortCounter::xmit_discards,
          packets_of(sent.bytes, sender.connection.path_mtu_bytes));
  }
}

void count_wait_begin(Process& process, const Sender& sender, Wait wait) {
  if (wait == Wait::receiver_not_ready) count_naks(process, sender, 1);
}

void count_wait_end(Process& process, const Sender& sender, Wait wait, std::uint64_t waited_ns,
                    bool used_up) {
  const Connection& connection = sender.connection;
  if (wait == Wait::receiver_not_ready && used_up) {
    count_naks(process, sender, connection.rnr_retry);
  } else if (wait == Wait::unreachable && connection.timeout != 0) {
    const std::uint64_t timeouts = waited_ns / connection.ack_timeout_ns();
    count(process, sender.record().port, PortCounter::local_ack_timeout_err,
          std::min<std::uint64_t>(timeouts, connection.retry_count));
  }
}

void count_failed_completion(Process& process, std::uint32_t port, ibv_wc_status status) {
  count(process, port,
        status == IBV_WC_WR_FLUSH_ERR ? PortCounter::req_cqe_flush_error
                                      : PortCounter::req_cqe_error);
}

void count_failed_receive(Process& process, std::uint32_t port, ibv_wc_status status) {
  if (status == IBV_WC_LOC_LEN_ERR) count(process, port, PortCounter::resp_local_length_error);
  count(process, port,
        status == IBV_WC_WR_FLUSH_ERR ? PortCounter::resp_cqe_flush_error
                                      : PortCounter::resp_cqe_error);
}

}  // namespace hbmwire::emulation::nic
