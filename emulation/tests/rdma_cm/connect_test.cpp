// SPDX-License-Identifier: MIT
#include <rdma/rdma_verbs.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <numeric>
#include <thread>

#include "emulation/tests/rdma_cm/cm_handles.hpp"

/// Connecting within one process, and calls that fail or are rejected. Sources: the manual pages of
/// librdmacm; in the kernel drivers/infiniband/core/cma.c, cm.c and ucma.c.
namespace hbmwire::test {
namespace {

// InfiniBand's number for the reason of a REJ that a consumer sends.
constexpr int kConsumerDefined = 28;

std::vector<std::uint8_t> bytes(std::size_t size) {
  std::vector<std::uint8_t> data(size);
  std::iota(data.begin(), data.end(), std::uint8_t{1});
  return data;
}

/// Expects that the event's private data begins with `expected` and has `length` bytes, which is
/// the room that InfiniBand's message has for it.
void expect_private_data(const CmEvent& event, const std::vector<std::uint8_t>& expected,
                         std::size_t length) {
  ASSERT_EQ(event.data.size(), length);
  EXPECT_EQ(std::memcmp(event.data.data(), expected.data(), expected.size()), 0);
}

// rdma_cm(7), "Client operation" and "Server operation".
TEST(Connect, EventsComeInTheOrderOfTheManual) {
  Listener listener;
  EventChannel channel;
  Id active = make_id(channel);
  ASSERT_EQ(rdma_resolve_addr(active.get(), nullptr, listener.address.get(), kTimeoutMs), 0);
  EXPECT_EQ(channel.expect(RDMA_CM_EVENT_ADDR_RESOLVED).id, active.get());
  ASSERT_NE(active->verbs, nullptr);
  ASSERT_EQ(rdma_resolve_route(active.get(), kTimeoutMs), 0);
  channel.expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
  create_qp(active.get());
  Parameters parameters;
  ASSERT_EQ(rdma_connect(active.get(), &parameters.value), 0);
  const CmEvent request = listener.channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  EXPECT_EQ(request.listener, listener.id.get());
  EXPECT_NE(request.id, listener.id.get());
  Id passive = own(request);
  ASSERT_NE(passive->verbs, nullptr);
  create_qp(passive.get());
  EXPECT_FALSE(channel.is_ready(0));
  ASSERT_EQ(rdma_accept(passive.get(), &parameters.value), 0);
  EXPECT_EQ(channel.expect(RDMA_CM_EVENT_ESTABLISHED).id, active.get());
  EXPECT_EQ(listener.channel.expect(RDMA_CM_EVENT_ESTABLISHED).id, passive.get());
  EXPECT_FALSE(channel.is_ready(0));
  EXPECT_FALSE(listener.channel.is_ready(0));
}

TEST(Connect, QueuePairsCarryData) {
  ConnectedPair pair;
  std::vector<std::uint8_t> from = bytes(100);
  std::vector<std::uint8_t> to(100);
  ibv_mr* const source = rdma_reg_msgs(pair.active.get(), from.data(), from.size());
  ibv_mr* const target = rdma_reg_msgs(pair.passive.get(), to.data(), to.size());
  ASSERT_NE(source, nullptr);
  ASSERT_NE(target, nullptr);
  ASSERT_EQ(rdma_post_recv(pair.passive.get(), nullptr, to.data(), to.size(), target), 0);
  ASSERT_EQ(rdma_post_send(pair.active.get(), nullptr, from.data(), from.size(), source, 0), 0);
  ibv_wc completion{};
  ASSERT_EQ(rdma_get_recv_comp(pair.passive.get(), &completion), 1);
  EXPECT_EQ(completion.status, IBV_WC_SUCCESS);
  ASSERT_EQ(rdma_get_send_comp(pair.active.get(), &completion), 1);
  EXPECT_EQ(completion.status, IBV_WC_SUCCESS);
  EXPECT_EQ(from, to);
  rdma_dereg_mr(source);
  rdma_dereg_mr(target);
}

// rdma_get_cm_event(3): "the size of the private data ... may be larger than what was sent". A REQ
// has room for 92 bytes, of which the kernel's header takes 36; a REP has room for 196.
TEST(Connect, PrivateDataGoesBothWays) {
  Listener listener;
  EventChannel channel;
  const Id active = resolved_id(channel, listener.address);
  Parameters asked(bytes(56));
  ASSERT_EQ(rdma_connect(active.get(), &asked.value), 0);
  const CmEvent request = listener.channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  expect_private_data(request, asked.data, 56);
  const Id passive = own(request);
  Parameters answered(bytes(196));
  ASSERT_EQ(rdma_accept(passive.get(), &answered.value), 0);
  expect_private_data(channel.expect(RDMA_CM_EVENT_CONNECT_RESPONSE), answered.data, 196);
}

// rdma_connect(3) and cm.c, cm_validate_req_param.
TEST(Connect, TooMuchPrivateDataIsInvalid) {
  Listener listener;
  EventChannel channel;
  const Id active = resolved_id(channel, listener.address);
  Parameters too_much(bytes(57));
  EXPECT_EQ(rdma_connect(active.get(), &too_much.value), -1);
  EXPECT_EQ(errno, EINVAL);
}

// cma.c, rdma_accept: if the reply cannot be sent, the connection is rejected.
TEST(Connect, AcceptWithTooMuchPrivateDataRejects) {
  Listener listener;
  EventChannel channel;
  const Id active = resolved_id(channel, listener.address);
  Parameters parameters;
  ASSERT_EQ(rdma_connect(active.get(), &parameters.value), 0);
  const Id passive = own(listener.channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST));
  Parameters too_much(bytes(197));
  EXPECT_EQ(rdma_accept(passive.get(), &too_much.value), -1);
  EXPECT_EQ(errno, EINVAL);
  channel.expect(RDMA_CM_EVENT_REJECTED, kConsumerDefined);
}

// cm.c, cm_format_req_event: one side's responder resources limit the requests of the other.
TEST(Connect, ParametersAreSeenFromTheOtherSide) {
  Listener listener;
  EventChannel channel;
  const Id active = resolved_id(channel, listener.address);
  Parameters parameters;
  parameters.value.responder_resources = 3;
  parameters.value.initiator_depth = 5;
  parameters.value.retry_count = 6;
  parameters.value.rnr_retry_count = 4;
  parameters.value.qp_num = 0x1234;
  parameters.value.srq = 1;
  ASSERT_EQ(rdma_connect(active.get(), &parameters.value), 0);
  const CmEvent request = listener.channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  const Id passive = own(request);
  EXPECT_EQ(request.connection.responder_resources, 5);
  EXPECT_EQ(request.connection.initiator_depth, 3);
  EXPECT_EQ(request.connection.retry_count, 6);
  EXPECT_EQ(request.connection.rnr_retry_count, 4);
  EXPECT_EQ(request.connection.qp_num, 0x1234U);
  EXPECT_EQ(request.connection.srq, 1);
  parameters.value.qp_num = 0x4321;
  ASSERT_EQ(rdma_accept(passive.get(), &parameters.value), 0);
  const CmEvent response = channel.expect(RDMA_CM_EVENT_CONNECT_RESPONSE);
  EXPECT_EQ(response.connection.qp_num, 0x4321U);
  EXPECT_EQ(response.connection.responder_resources, 5);
  EXPECT_EQ(response.connection.initiator_depth, 3);
}

// rdma_establish(3): without a QP the application says when it is ready.
TEST(Connect, AnIdWithoutAQueuePairNeedsEstablish) {
  Listener listener;
  EventChannel channel;
  const Id active = resolved_id(channel, listener.address);
  Parameters parameters;
  parameters.value.qp_num = 77;
  ASSERT_EQ(rdma_connect(active.get(), &parameters.value), 0);
  const Id passive = own(listener.channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST));
  parameters.value.qp_num = 88;
  ASSERT_EQ(rdma_accept(passive.get(), &parameters.value), 0);
  channel.expect(RDMA_CM_EVENT_CONNECT_RESPONSE);
  EXPECT_FALSE(listener.channel.is_ready(50));
  ibv_qp_attr attributes{};
  int mask = 0;
  attributes.qp_state = IBV_QPS_RTR;
  ASSERT_EQ(rdma_init_qp_attr(active.get(), &attributes, &mask), 0);
  EXPECT_EQ(attributes.dest_qp_num, 88U);
  EXPECT_EQ(mask & IBV_QP_DEST_QPN, IBV_QP_DEST_QPN);
  ASSERT_EQ(rdma_establish(active.get()), 0);
  listener.channel.expect(RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_EQ(rdma_establish(active.get()), -1);
  EXPECT_EQ(errno, EINVAL);
}

// ucma.c, ucma_event_handler: a request beyond the backlog is dropped, and its sender sends it
// again.
TEST(Connect, BacklogHoldsRequestsBack) {
  Listener listener(RDMA_PS_TCP, 1);
  EventChannel channel;
  const Id first = resolved_id(channel, listener.address);
  const Id second = resolved_id(channel, listener.address);
  Parameters parameters;
  ASSERT_EQ(rdma_connect(first.get(), &parameters.value), 0);
  ASSERT_EQ(rdma_connect(second.get(), &parameters.value), 0);
  EXPECT_FALSE(channel.is_ready(0)) << "the request beyond the backlog is not refused";
  const Id passive = own(listener.channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST));
  const Id other = own(listener.channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST));
}

/// Sets the state that sysfs shows for the first port of a NIC.
void set_link(int nic, const char* state) {
  const char* sysfs = std::getenv("SYSFS_PATH");
  std::ofstream(std::string(sysfs == nullptr ? "" : sysfs) + "/class/infiniband/emu" +
                std::to_string(nic) + "/ports/1/state")
      << state << '\n';
}

// A request on a link that is down is lost and sent again.
TEST(Connect, RequestWaitsForTheLink) {
  Listener listener(RDMA_PS_TCP, 8, nic_address(1));
  EventChannel channel;
  const Id active = resolved_id(channel, listener.address);
  set_link(1, "1: DOWN");
  // The NIC reads sysfs again after a tenth of a second.
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  Parameters parameters;
  EXPECT_EQ(rdma_connect(active.get(), &parameters.value), 0);
  EXPECT_FALSE(listener.channel.is_ready(300));
  set_link(1, "4: ACTIVE");
  const Id passive = own(listener.channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST));
}

/// A synchronous endpoint without a queue pair, as in rdma_xserver and rdma_xclient.
Id endpoint(const std::string& port, ibv_qp_type type, int flags) {
  rdma_addrinfo hints{};
  hints.ai_flags = flags;
  hints.ai_port_space = RDMA_PS_IB;
  hints.ai_qp_type = type;
  rdma_addrinfo* info = nullptr;
  rdma_cm_id* id = nullptr;
  if (rdma_getaddrinfo("127.0.0.1", port.c_str(), &hints, &info) != 0) {
    throw std::runtime_error("rdma_getaddrinfo");
  }
  const int error = rdma_create_ep(&id, info, nullptr, nullptr);
  rdma_freeaddrinfo(info);
  if (error != 0) throw std::runtime_error("rdma_create_ep");
  return Id(id);
}

// rdma_create_ep(3); cm.c, cm_req_get_qp_type: a sending XRC queue pair connects to a receiving
// one.
TEST(Connect, XrcSenderMeetsReceiver) {
  const Id listener = endpoint("0", IBV_QPT_XRC_RECV, RAI_PASSIVE);
  ASSERT_EQ(rdma_listen(listener.get(), 2), 0);
  const auto port = std::to_string(ntohs(rdma_get_src_port(listener.get())));
  Parameters parameters;
  std::thread server([&] {
    rdma_cm_id* request = nullptr;
    if (rdma_get_request(listener.get(), &request) != 0) return;
    EXPECT_EQ(request->qp_type, IBV_QPT_XRC_RECV);
    EXPECT_EQ(rdma_accept(request, &parameters.value), 0);
    rdma_destroy_id(request);
  });
  const Id active = endpoint(port, IBV_QPT_XRC_SEND, 0);
  ASSERT_EQ(rdma_connect(active.get(), &parameters.value), 0);
  EXPECT_EQ(active->event->event, RDMA_CM_EVENT_CONNECT_RESPONSE);
  ibv_qp_attr attributes{};
  int mask = 0;
  attributes.qp_state = IBV_QPS_RTR;
  ASSERT_EQ(rdma_init_qp_attr(active.get(), &attributes, &mask), 0);
  EXPECT_EQ(mask & IBV_QP_MAX_DEST_RD_ATOMIC, 0) << "an XRC sender answers no reads";
  attributes.qp_state = IBV_QPS_RTS;
  ASSERT_EQ(rdma_init_qp_attr(active.get(), &attributes, &mask), 0);
  EXPECT_EQ(mask & IBV_QP_RETRY_CNT, IBV_QP_RETRY_CNT);
  ASSERT_EQ(rdma_establish(active.get()), 0);
  server.join();
}

// cma.c, cma_check_req_qp_type.
TEST(Connect, OtherTypeOfQueuePairIsRejected) {
  const Id listener = endpoint("0", IBV_QPT_XRC_RECV, RAI_PASSIVE);
  ASSERT_EQ(rdma_listen(listener.get(), 2), 0);
  const auto port = std::to_string(ntohs(rdma_get_src_port(listener.get())));
  const Id active = endpoint(port, IBV_QPT_RC, 0);
  Parameters parameters;
  EXPECT_EQ(rdma_connect(active.get(), &parameters.value), -1);
  EXPECT_EQ(errno, ECONNREFUSED);
  EXPECT_EQ(active->event->status, kConsumerDefined);
}

// rdma_set_local_ece(3), rdma_get_remote_ece(3).
TEST(Connect, EnhancedConnectionDataIsCarried) {
  Listener listener;
  EventChannel channel;
  const Id active = resolved_id(channel, listener.address);
  ibv_ece ece{0x1234, 0x5678, 0};
  ASSERT_EQ(rdma_set_local_ece(active.get(), &ece), 0);
  Parameters parameters;
  ASSERT_EQ(rdma_connect(active.get(), &parameters.value), 0);
  const Id passive = own(listener.channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST));
  ibv_ece seen{};
  ASSERT_EQ(rdma_get_remote_ece(passive.get(), &seen), 0);
  EXPECT_EQ(seen.vendor_id, 0x1234U);
  EXPECT_EQ(seen.options, 0x5678U);
}

}  // namespace
}  // namespace hbmwire::test
