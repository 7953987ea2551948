// SPDX-License-Identifier: MIT
#include <cerrno>
#include <cstring>
#include <numeric>

#include "emulation/tests/rdma_cm/cm_handles.hpp"

/// Connections that fail: rdma_reject(3), rdma_connect(3), rdma_notify(3), and the kernel's cma.c,
/// cm.c and ucma.c.
namespace hbmwire::test {
namespace {

// InfiniBand's numbers for the reasons of a REJ.
constexpr int kInvalidServiceId = 8;
constexpr int kRefusedByConsumer = 28;

// rdma_reject(3).
TEST(Refused, RejectBringsReasonAndPrivateData) {
  Listener listener;
  EventChannel channel;
  const Id active = resolved_id(channel, listener.address);
  Parameters parameters;
  ASSERT_EQ(rdma_connect(active.get(), &parameters.value), 0);
  const Id passive = own(listener.channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST));
  std::vector<std::uint8_t> why(148);
  std::iota(why.begin(), why.end(), std::uint8_t{1});
  ASSERT_EQ(rdma_reject(passive.get(), why.data(), 148), 0);
  const CmEvent event = channel.expect(RDMA_CM_EVENT_REJECTED, kRefusedByConsumer);
  EXPECT_EQ(event.data, why);
  // The rejection is final.
  EXPECT_EQ(rdma_accept(passive.get(), &parameters.value), -1);
  EXPECT_EQ(errno, EINVAL);
}

// rdma_reject_ece(3): IBTA reason 35.
TEST(Refused, RejectForVendorOptionHasItsReason) {
  Listener listener;
  EventChannel channel;
  const Id active = resolved_id(channel, listener.address);
  Parameters parameters;
  ASSERT_EQ(rdma_connect(active.get(), &parameters.value), 0);
  const Id passive = own(listener.channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST));
  ASSERT_EQ(rdma_reject_ece(passive.get(), nullptr, 0), 0);
  channel.expect(RDMA_CM_EVENT_REJECTED, 35);
}

TEST(Refused, RejectingTheReplyReachesTheListener) {
  Listener listener;
  EventChannel channel;
  const Id active = resolved_id(channel, listener.address);
  Parameters parameters;
  ASSERT_EQ(rdma_connect(active.get(), &parameters.value), 0);
  const Id passive = own(listener.channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST));
  ASSERT_EQ(rdma_accept(passive.get(), &parameters.value), 0);
  channel.expect(RDMA_CM_EVENT_CONNECT_RESPONSE);
  ASSERT_EQ(rdma_reject(active.get(), nullptr, 0), 0);
  EXPECT_EQ(listener.channel.expect(RDMA_CM_EVENT_REJECTED, kRefusedByConsumer).id, passive.get());
}

// cm.c, cm_req_handler: no id listens on this service id.
TEST(Refused, ConnectingWithoutAListenerIsRejected) {
  EventChannel channel;
  const Id active = resolved_id(channel, nic_address(0, 4));
  Parameters parameters;
  ASSERT_EQ(rdma_connect(active.get(), &parameters.value), 0);
  channel.expect(RDMA_CM_EVENT_REJECTED, kInvalidServiceId);
}

TEST(Refused, AnotherPortSpaceIsAnotherPort) {
  Listener listener(RDMA_PS_TCP);
  EventChannel channel;
  const Id active = resolved_id(channel, listener.address, RDMA_PS_IB);
  Parameters parameters;
  ASSERT_EQ(rdma_connect(active.get(), &parameters.value), 0);
  channel.expect(RDMA_CM_EVENT_REJECTED, kInvalidServiceId);
}

// cm.c, cm_destroy_id: requests that wait at a listener end with it.
TEST(Refused, DestroyedListenerRejectsWaitingRequests) {
  EventChannel channel;
  Id active;
  {
    Listener listener;
    active = resolved_id(channel, listener.address);
    Parameters parameters;
    ASSERT_EQ(rdma_connect(active.get(), &parameters.value), 0);
    ASSERT_TRUE(listener.channel.is_ready(kTimeoutMs));
  }
  channel.expect(RDMA_CM_EVENT_REJECTED, kRefusedByConsumer);
}

TEST(Refused, RequestThatIsDestroyedIsRejected) {
  Listener listener;
  EventChannel channel;
  const Id active = resolved_id(channel, listener.address);
  Parameters parameters;
  ASSERT_EQ(rdma_connect(active.get(), &parameters.value), 0);
  own(listener.channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST)).reset();
  channel.expect(RDMA_CM_EVENT_REJECTED, kRefusedByConsumer);
}

TEST(Refused, AcceptAfterThePeerHasGoneIsInvalid) {
  Listener listener;
  EventChannel channel;
  Id active = resolved_id(channel, listener.address);
  Parameters parameters;
  ASSERT_EQ(rdma_connect(active.get(), &parameters.value), 0);
  const Id passive = own(listener.channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST));
  active.reset();
  EXPECT_EQ(rdma_accept(passive.get(), &parameters.value), -1);
  EXPECT_EQ(errno, EINVAL);
}

// rdma_connect(3): the route must be resolved first. cma.c: EINVAL in any other state.
TEST(Refused, CallsInOtherStatesAreInvalid) {
  EventChannel channel;
  const Id id = make_id(channel);
  Parameters parameters;
  ASSERT_EQ(rdma_bind_addr(id.get(), nic_address().get()), 0);
  EXPECT_EQ(rdma_connect(id.get(), &parameters.value), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(rdma_resolve_route(id.get(), kTimeoutMs), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(rdma_accept(id.get(), &parameters.value), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(rdma_reject(id.get(), nullptr, 0), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(rdma_disconnect(id.get()), -1);
  EXPECT_EQ(errno, EINVAL);
}

// cm.c: REQ_ERROR comes after the retries; here it comes after a time that the test sets.
TEST(Refused, ListenerThatNeverAnswersIsUnreachable) {
  Listener listener;
  EventChannel channel;
  const Id active = resolved_id(channel, listener.address);
  Parameters parameters;
  set_response_timeout(300);
  ASSERT_EQ(rdma_connect(active.get(), &parameters.value), 0);
  channel.expect(RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
  set_response_timeout(0);
  // The listener still has the request, whose id the test frees.
  const Id passive = own(listener.channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST));
}

TEST(Refused, ReplyThatIsNeverConfirmedIsUnreachable) {
  Listener listener;
  EventChannel channel;
  const Id active = resolved_id(channel, listener.address);
  Parameters parameters;
  ASSERT_EQ(rdma_connect(active.get(), &parameters.value), 0);
  const Id passive = own(listener.channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST));
  set_response_timeout(300);
  ASSERT_EQ(rdma_accept(passive.get(), &parameters.value), 0);
  set_response_timeout(0);
  EXPECT_EQ(listener.channel.expect(RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT).id, passive.get());
}

// rdma_notify(3): reports that a QP has received a message before it was established.
TEST(Refused, NotifyEstablishes) {
  Listener listener;
  EventChannel channel;
  const Id active = resolved_id(channel, listener.address);
  Parameters parameters;
  ASSERT_EQ(rdma_connect(active.get(), &parameters.value), 0);
  const Id passive = own(listener.channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST));
  ASSERT_EQ(rdma_accept(passive.get(), &parameters.value), 0);
  ASSERT_EQ(rdma_notify(passive.get(), IBV_EVENT_COMM_EST), 0);
  listener.channel.expect(RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_EQ(rdma_notify(passive.get(), IBV_EVENT_COMM_EST), -1);
  EXPECT_EQ(errno, EISCONN);
  EXPECT_EQ(rdma_notify(passive.get(), IBV_EVENT_QP_FATAL), -1);
  EXPECT_EQ(errno, EINVAL);
}

}  // namespace
}  // namespace hbmwire::test
