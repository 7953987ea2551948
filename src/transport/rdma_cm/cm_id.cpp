// SPDX-License-Identifier: MIT
#include "transport/rdma_cm/cm_id.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "hbmwire/host_port.hpp"

#include "base/log.hpp"
#include "verbs/port.hpp"
#include "verbs/queue_pair.hpp"

namespace hbmwire::transport {

namespace {

constexpr int kResolveMs = 2000;  // the bound of each step: librdmacm gives up then
constexpr int kBacklog = 1024;    // the default limit (sysctl net.rdma_ucm.max_backlog)
// A request of librdmacm carries at most 56 bytes besides its own 36 bytes: too few for the offers,
// which therefore go by the control lane. These bytes only identify the program: "hbmw-ep\n" and a
// version.
constexpr std::array<std::uint8_t, 10> kGreeting{'h', 'b', 'm', 'w', '-', 'e', 'p', '\n', 0, 1};

/// These counts only fill librdmacm's messages: each end wires its queue pair up by
/// verbs::to_ready(), with counts of its own.
rdma_conn_param parameters(std::uint32_t queue_pair) noexcept {
  rdma_conn_param with{};
  with.private_data = kGreeting.data();
  with.private_data_len = kGreeting.size();
  with.responder_resources = 1;
  with.initiator_depth = 1;
  with.retry_count = 7;
  with.rnr_retry_count = 6;
  with.qp_num = queue_pair;
  return with;
}

Result<std::unique_ptr<rdma_event_channel, CmDestroy>> open_channel(const std::string& peer) {
  std::unique_ptr<rdma_event_channel, CmDestroy> channel(rdma_create_event_channel());
  const auto failed = [&](const char* call) {
    return tl::make_unexpected(system_error(Stage::connect, call, errno, peer, Hint::rdma_cm));
  };
  if (!channel) return failed("rdma_create_event_channel");
  const int flags = ::fcntl(channel->fd, F_GETFL);
  if (flags < 0 || ::fcntl(channel->fd, F_SETFL, flags | O_NONBLOCK) != 0) return failed("fcntl");
  return channel;
}

}  // namespace

void CmDestroy::operator()(rdma_event_channel* channel) const noexcept {
  rdma_destroy_event_channel(channel);
}

void CmDestroy::operator()(rdma_cm_id* id) const noexcept {
  // Waits only for unacknowledged events, and next() leaves none.
  if (rdma_destroy_id(id) != 0) log_warning("rdma_destroy_id", "failed", errno);
}

CmId::~CmId() {
  // rdma_destroy_id(3) would destroy the parent's object as well, because parent and child share
  // the descriptor.
  if (made_.is_inherited()) static_cast<void>(id_.release());
}

Result<CmId> CmId::create(std::string peer) {
  CmId made;
  made.peer_ = std::move(peer);
  HBMWIRE_TRY_ASSIGN(made.channel_, open_channel(made.peer_));
  rdma_cm_id* id = nullptr;
  HBMWIRE_TRY(
      made.check(rdma_create_id(made.channel_.get(), &id, nullptr, RDMA_PS_TCP), "rdma_create_id"));
  made.id_.reset(id);
  return made;
}

Result<CmId> CmId::adopt(rdma_cm_id* request, std::string peer) {
  CmId made;
  made.peer_ = std::move(peer);
  std::unique_ptr<rdma_cm_id, CmDestroy> id(request);
  HBMWIRE_TRY_ASSIGN(made.channel_, open_channel(made.peer_));
  HBMWIRE_TRY(made.check(rdma_migrate_id(request, made.channel_.get()), "rdma_migrate_id"));
  made.id_ = std::move(id);
  return made;
}

Result<void> CmId::check(int result, const char* call) const {
  if (result == 0) return {};
  return tl::make_unexpected(system_error(Stage::connect, call, errno, peer_, Hint::rdma_cm));
}

Result<void> CmId::listen(const sockaddr& address) {
  HBMWIRE_TRY(check(rdma_bind_addr(id_.get(), const_cast<sockaddr*>(&address)), "rdma_bind_addr"));
  return check(rdma_listen(id_.get(), kBacklog), "rdma_listen");
}

Result<void> CmId::set_traffic_class(std::uint8_t traffic_class) {
  return check(rdma_set_option(id_.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &traffic_class,
                               sizeof traffic_class),
               "rdma_set_option");
}

Result<void> CmId::resolve_address(const sockaddr& address) {
  return check(rdma_resolve_addr(id_.get(), nullptr, const_cast<sockaddr*>(&address), kResolveMs),
               "rdma_resolve_addr");
}

Result<void> CmId::resolve_route() {
  return check(rdma_resolve_route(id_.get(), kResolveMs), "rdma_resolve_route");
}

Result<void> CmId::connect(std::uint32_t queue_pair) {
  rdma_conn_param with = parameters(queue_pair);
  return check(rdma_connect(id_.get(), &with), "rdma_connect");
}

Result<void> CmId::accept(std::uint32_t queue_pair) {
  rdma_conn_param with = parameters(queue_pair);
  return check(rdma_accept(id_.get(), &with), "rdma_accept");
}

Result<void> CmId::establish() { return check(rdma_establish(id_.get()), "rdma_establish"); }

void CmId::reject() noexcept { rdma_reject(id_.get(), nullptr, 0); }

std::optional<CmEvent> CmId::next() noexcept {
  rdma_cm_event* event = nullptr;
  if (rdma_get_cm_event(channel_.get(), &event) != 0) return std::nullopt;
  CmEvent copy{.type = event->event, .status = event->status, .id = event->id};
  const rdma_conn_param& with = event->param.conn;
  copy.ours = with.private_data != nullptr && with.private_data_len >= kGreeting.size() &&
              std::memcmp(with.private_data, kGreeting.data(), kGreeting.size()) == 0;
  rdma_ack_cm_event(event);
  return copy;
}

Result<CmPath> CmId::path() const {
  CmPath path;
  ibv_qp_attr attributes{};
  int mask = 0;
  attributes.qp_state = IBV_QPS_RTR;
  HBMWIRE_TRY(check(rdma_init_qp_attr(id_.get(), &attributes, &mask), "rdma_init_qp_attr"));
  path.address = verbs::to_address_path(attributes.ah_attr);
  path.mtu_bytes = verbs::mtu_bytes(attributes.path_mtu);
  path.remote_queue_pair = attributes.dest_qp_num;
  path.receive_sequence = attributes.rq_psn;
  attributes = {};
  attributes.qp_state = IBV_QPS_RTS;
  HBMWIRE_TRY(check(rdma_init_qp_attr(id_.get(), &attributes, &mask), "rdma_init_qp_attr"));
  path.send_sequence = attributes.sq_psn;
  return path;
}

std::string_view CmId::device() const noexcept {
  return id_->verbs != nullptr ? ibv_get_device_name(id_->verbs->device) : "";
}

std::uint16_t CmId::listening_port() const noexcept { return ntohs(rdma_get_src_port(id_.get())); }

Error CmId::failed(const CmEvent& event) const noexcept {
  // For a rejection the status is InfiniBand's reason (28: by the application), else an errno.
  if (event.type == RDMA_CM_EVENT_REJECTED) {
    constexpr int kByConsumer = 28;
    return make_error(Errc::peer_failed, Stage::connect,
                      event.status == kByConsumer ? "the peer's listener refused"
                                                  : "no program listens there by rdma_cm",
                      peer_, Hint::connection_refused);
  }
  Error error = system_error(Stage::connect, rdma_event_str(event.type),
                             event.status < 0 ? -event.status : event.status, peer_, Hint::rdma_cm);
  if (event.type == RDMA_CM_EVENT_UNREACHABLE) error.hint = Hint::host_unreachable;
  return error;
}

std::string CmId::name_of_peer(rdma_cm_id* request) {
  std::array<char, NI_MAXHOST> host{};
  sockaddr* const address = rdma_get_peer_addr(request);
  const socklen_t size =
      address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  ::getnameinfo(address, size, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST);
  return "rdma_cm://" + join_host_port(host.data(), ntohs(rdma_get_dst_port(request)));
}

}  // namespace hbmwire::transport
