// SPDX-License-Identifier: MIT
#include "emulation/tests/rdma_cm/cm_handles.hpp"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "emulation/tests/nic/plugin.hpp"

namespace hbmwire::test {
namespace {

/// Throws if a call of librdmacm failed.
void need(int result, const char* call) {
  if (result != 0) throw std::runtime_error(std::string(call) + ": " + std::strerror(errno));
}

}  // namespace

bool EventChannel::is_ready(int timeout_ms) const {
  pollfd entry{fd(), POLLIN, 0};
  return ::poll(&entry, 1, timeout_ms) == 1 && (entry.revents & POLLIN) != 0;
}

std::optional<CmEvent> EventChannel::next(int timeout_ms) const {
  if (!is_ready(timeout_ms)) {
    ADD_FAILURE() << "no event within " << timeout_ms << " ms";
    return std::nullopt;
  }
  rdma_cm_event* event = nullptr;
  if (rdma_get_cm_event(channel_, &event) != 0) {
    ADD_FAILURE() << "rdma_get_cm_event: " << std::strerror(errno);
    return std::nullopt;
  }
  CmEvent copy{event->event,      event->status,   event->id, event->listen_id,
               event->param.conn, event->param.ud, {}};
  const bool is_datagram = event->id->qp_type == IBV_QPT_UD;
  const void* data = is_datagram ? event->param.ud.private_data : event->param.conn.private_data;
  const std::size_t size =
      is_datagram ? event->param.ud.private_data_len : event->param.conn.private_data_len;
  // The private data of a MULTICAST_JOIN is the caller's context, a pointer and no bytes.
  if (data != nullptr && event->event != RDMA_CM_EVENT_MULTICAST_JOIN) {
    const auto* const bytes = static_cast<const std::uint8_t*>(data);
    copy.data.assign(bytes, bytes + size);
  }
  rdma_ack_cm_event(event);
  return copy;
}

CmEvent EventChannel::expect(rdma_cm_event_type type, int status, int timeout_ms) const {
  const auto event = next(timeout_ms);
  if (!event) throw std::runtime_error(std::string("no ") + rdma_event_str(type));
  EXPECT_STREQ(rdma_event_str(event->type), rdma_event_str(type));
  EXPECT_EQ(event->status, status);
  return *event;
}

void EventChannel::set_nonblocking() const {
  need(::fcntl(fd(), F_SETFL, ::fcntl(fd(), F_GETFL) | O_NONBLOCK), "fcntl");
}

void DestroyId::operator()(rdma_cm_id* id) const {
  if (id->qp != nullptr) rdma_destroy_qp(id);
  EXPECT_EQ(rdma_destroy_id(id), 0) << std::strerror(errno);
}

Id make_id(const EventChannel& channel, rdma_port_space space) {
  rdma_cm_id* id = nullptr;
  need(rdma_create_id(channel.get(), &id, nullptr, space), "rdma_create_id");
  return Id(id);
}

Address ipv4(const std::string& text, std::uint16_t port) {
  Address address;
  auto& form = reinterpret_cast<sockaddr_in&>(address.storage);
  form.sin_family = AF_INET;
  form.sin_port = htons(port);
  if (::inet_pton(AF_INET, text.c_str(), &form.sin_addr) != 1) throw std::runtime_error(text);
  return address;
}

Address ipv6(const std::string& text, std::uint16_t port, std::uint32_t scope) {
  Address address;
  auto& form = reinterpret_cast<sockaddr_in6&>(address.storage);
  form.sin6_family = AF_INET6;
  form.sin6_port = htons(port);
  form.sin6_scope_id = scope;
  if (::inet_pton(AF_INET6, text.c_str(), &form.sin6_addr) != 1) throw std::runtime_error(text);
  return address;
}

Address nic_address(int index, std::uint16_t port) {
  const char* sysfs = std::getenv("SYSFS_PATH");
  const std::string path = std::string(sysfs == nullptr ? "/sys" : sysfs) +
                           "/class/infiniband/emu" + std::to_string(index) + "/ports/1/gids/3";
  // GID 3 has the IPv4 address in its last four bytes.
  std::string gid;
  std::ifstream(path) >> gid;
  in6_addr bytes{};
  if (::inet_pton(AF_INET6, gid.c_str(), &bytes) != 1) throw std::runtime_error(path);
  Address address = ipv4("0.0.0.0", port);
  std::memcpy(&reinterpret_cast<sockaddr_in&>(address.storage).sin_addr, &bytes.s6_addr[12], 4);
  return address;
}

void create_qp(rdma_cm_id* id) {
  ibv_qp_init_attr attributes{};
  attributes.cap = {.max_send_wr = 4,
                    .max_recv_wr = 4,
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = 0};
  attributes.qp_type = id->qp_type;
  attributes.sq_sig_all = 1;
  need(rdma_create_qp(id, nullptr, &attributes), "rdma_create_qp");
}

Listener::Listener(rdma_port_space space, int backlog, Address at) : id(make_id(channel, space)) {
  need(rdma_bind_addr(id.get(), at.get()), "rdma_bind_addr");
  need(rdma_listen(id.get(), backlog), "rdma_listen");
  address = at.with_port(ntohs(rdma_get_src_port(id.get())));
}

Id resolved_id(const EventChannel& channel, Address destination, rdma_port_space space) {
  Id id = make_id(channel, space);
  need(rdma_resolve_addr(id.get(), nullptr, destination.get(), kTimeoutMs), "rdma_resolve_addr");
  channel.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
  need(rdma_resolve_route(id.get(), kTimeoutMs), "rdma_resolve_route");
  channel.expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
  return id;
}

ConnectedPair::ConnectedPair() : active(resolved_id(channel, listener.address)) {
  create_qp(active.get());
  Parameters parameters;
  need(rdma_connect(active.get(), &parameters.value), "rdma_connect");
  passive = own(listener.channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST));
  create_qp(passive.get());
  need(rdma_accept(passive.get(), &parameters.value), "rdma_accept");
  channel.expect(RDMA_CM_EVENT_ESTABLISHED);
  listener.channel.expect(RDMA_CM_EVENT_ESTABLISHED);
}

void set_response_timeout(std::uint64_t ms) {
  plugin_function<bool (*)(std::uint64_t)>("hbmwire_cm_set_response_timeout")(ms);
}

unsigned live_records() { return plugin_function<unsigned (*)()>("hbmwire_cm_live_records")(); }

long fail_nth_call(long n, int error_number) {
  return plugin_function<long (*)(long, int)>("hbmwire_nic_fail_nth_call")(n, error_number);
}

}  // namespace hbmwire::test
