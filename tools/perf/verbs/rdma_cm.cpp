// SPDX-License-Identifier: MIT
#include "tools/perf/verbs/rdma_cm.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "tools/perf/verbs/states.hpp"

namespace hbmwire::tools::perf {
namespace {

constexpr int kResolveMs = 2000;

/// The address in a RoCE GID: IPv4 if it is mapped, else IPv6.
sockaddr_storage address_of(const std::array<std::uint8_t, 16>& gid, std::uint16_t port) {
  constexpr std::array<std::uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  sockaddr_storage storage{};
  if (std::equal(kMapped.begin(), kMapped.end(), gid.begin())) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    std::memcpy(&address.sin_addr, gid.data() + kMapped.size(), sizeof address.sin_addr);
    std::memcpy(&storage, &address, sizeof address);
  } else {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(port);
    std::memcpy(&address.sin6_addr, gid.data(), sizeof address.sin6_addr);
    std::memcpy(&storage, &address, sizeof address);
  }
  return storage;
}

/// The private data of a request: the number of the client's queue pair, and the number of the run,
/// which identifies requests of other programs.
struct Greeting {
  std::uint32_t lane = ~std::uint32_t{0};
  std::uint32_t seed = 0;
};

rdma_conn_param parameters(const Lanes& lanes, std::uint32_t queue, const Greeting* greeting) {
  rdma_conn_param with{};
  with.private_data = greeting;
  with.private_data_len = greeting != nullptr ? sizeof *greeting : 0;
  with.responder_resources = lanes.reads_in;
  with.initiator_depth = lanes.reads_out;
  // Only carried in the request: to_ready() sets the queue pair's own retries.
  with.retry_count = 7;
  with.rnr_retry_count = 7;
  with.qp_num = queue;
  return with;
}

}  // namespace

Outcome<void> CmConnector::check(int result, const char* call) const {
  if (result == 0) return {};
  return tl::make_unexpected(
      system_error(Stage::connect, call, errno, work_->session.peer(), Hint::rdma_cm));
}

Outcome<void> CmConnector::open() {
  if (channel_) return {};
  channel_.reset(rdma_create_event_channel());
  HBMWIRE_TRY(check(channel_ ? 0 : -1, "rdma_create_event_channel"));
  const int flags = ::fcntl(channel_->fd, F_GETFL);
  return check(flags < 0 ? -1 : ::fcntl(channel_->fd, F_SETFL, flags | O_NONBLOCK), "fcntl");
}

Outcome<std::uint16_t> CmConnector::listen(const wire::PerfQueues& mine) {
  HBMWIRE_TRY(open());
  rdma_cm_id* id = nullptr;
  HBMWIRE_TRY(check(rdma_create_id(channel_.get(), &id, nullptr, RDMA_PS_TCP), "rdma_create_id"));
  listener_.reset(id);
  sockaddr_storage address = address_of(mine.first.gid, 0);  // 0: any free port
  HBMWIRE_TRY(check(rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&address)), "rdma_bind_addr"));
  HBMWIRE_TRY(check(rdma_listen(id, static_cast<int>(mine.queues.size())), "rdma_listen"));
  return ntohs(rdma_get_src_port(id));
}

Outcome<void> CmConnector::connect(Lanes& lanes, const wire::PerfQueues& peer) {
  HBMWIRE_TRY(open());
  for (Lane& lane : lanes.lanes) {
    HBMWIRE_TRY(work_->is_client() ? ask(lanes, lane, peer) : answer(lanes, lanes.lanes));
  }
  return {};
}

Outcome<void> CmConnector::ask(const Lanes& lanes, Lane& lane, const wire::PerfQueues& peer) {
  rdma_cm_id* id = nullptr;
  HBMWIRE_TRY(check(rdma_create_id(channel_.get(), &id, nullptr, RDMA_PS_TCP), "rdma_create_id"));
  ids_.emplace_back(id);
  sockaddr_storage address = address_of(peer.first.gid, peer.service_port);
  HBMWIRE_TRY(
      check(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&address), kResolveMs),
            "rdma_resolve_addr"));
  HBMWIRE_TRY(expect(RDMA_CM_EVENT_ADDR_RESOLVED));
  const char* const device = id->verbs != nullptr ? ibv_get_device_name(id->verbs->device) : "?";
  if (lanes.nic != device || work_->side.nic.info().port != id->port_num) {
    return fail(
        fmt::format("connect: rdma_cm reaches the server by {}:{}, not by {}:{}: choose "
                    "that one by -d and -i, or leave out -R",
                    device, id->port_num, lanes.nic, work_->side.nic.info().port));
  }
  HBMWIRE_TRY(check(rdma_resolve_route(id, kResolveMs), "rdma_resolve_route"));
  HBMWIRE_TRY(expect(RDMA_CM_EVENT_ROUTE_RESOLVED));
  const Greeting greeting{.lane = lane.number, .seed = work_->request.seed};
  rdma_conn_param with = parameters(lanes, lane.qp->qp_num, &greeting);
  HBMWIRE_TRY(check(rdma_connect(id, &with), "rdma_connect"));
  HBMWIRE_TRY(expect(RDMA_CM_EVENT_CONNECT_RESPONSE));
  HBMWIRE_TRY(wire_up(lanes, lane, id));
  return check(rdma_establish(id), "rdma_establish");
}

Outcome<void> CmConnector::answer(const Lanes& lanes, std::vector<Lane>& all) {
  HBMWIRE_TRY_ASSIGN(const Event request, expect(RDMA_CM_EVENT_CONNECT_REQUEST));
  ids_.emplace_back(request.id);
  Lane& lane = all[request.lane];
  HBMWIRE_TRY(wire_up(lanes, lane, request.id));
  rdma_conn_param with = parameters(lanes, lane.qp->qp_num, nullptr);
  HBMWIRE_TRY(check(rdma_accept(request.id, &with), "rdma_accept"));
  HBMWIRE_TRY(expect(RDMA_CM_EVENT_ESTABLISHED));
  return {};
}

Outcome<void> CmConnector::wire_up(const Lanes& lanes, Lane& lane, rdma_cm_id* id) {
  ibv_qp_attr attributes{};
  int mask = 0;
  attributes.qp_state = IBV_QPS_RTR;
  HBMWIRE_TRY(check(rdma_init_qp_attr(id, &attributes, &mask), "rdma_init_qp_attr"));
  lane.route.path = attributes.ah_attr;
  lane.route.mtu = std::min(attributes.path_mtu, lanes.route_mtu);
  lane.route.remote_queue = attributes.dest_qp_num;
  lane.route.receive_sequence = attributes.rq_psn;
  attributes = {};
  attributes.qp_state = IBV_QPS_RTS;
  HBMWIRE_TRY(check(rdma_init_qp_attr(id, &attributes, &mask), "rdma_init_qp_attr"));
  lane.route.send_sequence = attributes.sq_psn;
  lane.route.reads_out = lanes.reads_out;
  lane.route.reads_in = lanes.reads_in;
  lane.remote_queue = lane.route.remote_queue;
  return to_ready(*work_, lane.qp.get(), lane.route);
}

Outcome<CmConnector::Event> CmConnector::expect(rdma_cm_event_type type) {
  const Wait wait = work_->session.wait();
  std::array<pollfd, 3> fds{pollfd{channel_->fd, POLLIN, 0},
                            pollfd{work_->session.control_fd(), POLLIN, 0},
                            pollfd{wait.cancel_fd, POLLIN, 0}};
  while (true) {
    const int ready = ::poll(fds.data(), fds.size(), wait.deadline.poll_timeout_ms());
    if (ready < 0 && errno != EINTR) HBMWIRE_TRY(check(-1, "poll"));
    if (ready > 0 && fds[0].revents != 0) {
      HBMWIRE_TRY_ASSIGN(const auto event, take(type));
      if (event) return *event;
    } else if (ready > 0) {
      // A signal, the peer's last message, or a sign of life.
      HBMWIRE_TRY(work_->session.tick());
      HBMWIRE_TRY(work_->session.look());
      // A message that is read later would make every poll() return at once.
      if (work_->session.has_mail()) fds[1].fd = -1;
    }
    if (wait.deadline.passed()) {
      return tl::make_unexpected(make_error(Errc::timed_out, Stage::connect, rdma_event_str(type),
                                            work_->session.peer(), Hint::rdma_cm));
    }
  }
}

Outcome<std::optional<CmConnector::Event>> CmConnector::take(rdma_cm_event_type type) {
  rdma_cm_event* event = nullptr;
  HBMWIRE_TRY(check(rdma_get_cm_event(channel_.get(), &event), "rdma_get_cm_event"));
  const rdma_cm_event_type got = event->event;
  const int status = event->status;
  Greeting greeting;
  const rdma_conn_param& sent = event->param.conn;
  if (got == RDMA_CM_EVENT_CONNECT_REQUEST && sent.private_data != nullptr &&
      sent.private_data_len >= sizeof greeting)
    std::memcpy(&greeting, sent.private_data, sizeof greeting);
  const Event copy{.id = event->id, .lane = greeting.lane};
  rdma_ack_cm_event(event);
  const bool ours =
      greeting.seed == work_->request.seed && greeting.lane < work_->request.queue_pairs;
  if (got == RDMA_CM_EVENT_CONNECT_REQUEST && (type != got || !ours)) {
    rdma_reject(copy.id, nullptr, 0);
    Id(copy.id).reset();
    return std::optional<Event>();
  }
  if (got == type) return std::optional<Event>(copy);
  return tl::make_unexpected(system_error(Stage::connect, rdma_event_str(got),
                                          status < 0 ? -status : status, work_->session.peer(),
                                          Hint::rdma_cm));
}

}  // namespace hbmwire::tools::perf
