// SPDX-License-Identifier: MIT
#include <cerrno>

#include "emulation/tests/rdma_cm/cm_handles.hpp"

/// The end of a connection: rdma_disconnect(3), rdma_destroy_id(3), and the kernel's cm.c.
namespace hbmwire::test {
namespace {

// The timewait of RoCE is about 1 s, but the machine may be busy.
constexpr int kTimewaitMs = 3000;

// cm.c: the side that disconnects gets its event when the other side answers by its own
// rdma_disconnect.
TEST(Disconnect, BothSidesAreToldThenTimewaitEnds) {
  ConnectedPair pair;
  ASSERT_EQ(rdma_disconnect(pair.active.get()), 0);
  EXPECT_EQ(pair.listener.channel.expect(RDMA_CM_EVENT_DISCONNECTED).id, pair.passive.get());
  EXPECT_FALSE(pair.channel.is_ready(50));
  ASSERT_EQ(rdma_disconnect(pair.passive.get()), 0);
  EXPECT_EQ(pair.channel.expect(RDMA_CM_EVENT_DISCONNECTED).id, pair.active.get());
  pair.channel.expect(RDMA_CM_EVENT_TIMEWAIT_EXIT, 0, kTimewaitMs);
  pair.listener.channel.expect(RDMA_CM_EVENT_TIMEWAIT_EXIT, 0, kTimewaitMs);
}

TEST(Disconnect, ThePassiveSideMayDisconnectFirst) {
  ConnectedPair pair;
  ASSERT_EQ(rdma_disconnect(pair.passive.get()), 0);
  pair.channel.expect(RDMA_CM_EVENT_DISCONNECTED);
  ASSERT_EQ(rdma_disconnect(pair.active.get()), 0);
  pair.listener.channel.expect(RDMA_CM_EVENT_DISCONNECTED);
}

TEST(Disconnect, QueuePairsAreInError) {
  ConnectedPair pair;
  ASSERT_EQ(rdma_disconnect(pair.active.get()), 0);
  ibv_qp_attr attributes{};
  ibv_qp_init_attr initial{};
  ASSERT_EQ(ibv_query_qp(pair.active->qp, &attributes, IBV_QP_STATE, &initial), 0);
  EXPECT_EQ(attributes.qp_state, IBV_QPS_ERR);
}

TEST(Disconnect, DestroyedIdDisconnectsItsPeer) {
  ConnectedPair pair;
  pair.passive.reset();
  EXPECT_EQ(pair.channel.expect(RDMA_CM_EVENT_DISCONNECTED).id, pair.active.get());
  // No peer answers: only timewait remains.
  ASSERT_EQ(rdma_disconnect(pair.active.get()), 0);
  pair.channel.expect(RDMA_CM_EVENT_TIMEWAIT_EXIT, 0, kTimewaitMs);
}

TEST(Disconnect, DestroyingAnIdAnswersADisconnect) {
  ConnectedPair pair;
  ASSERT_EQ(rdma_disconnect(pair.active.get()), 0);
  pair.listener.channel.expect(RDMA_CM_EVENT_DISCONNECTED);
  pair.passive.reset();
  pair.channel.expect(RDMA_CM_EVENT_DISCONNECTED);
}

// cma.c: a second call sends no message and reports success.
TEST(Disconnect, ASecondDisconnectIsNoError) {
  ConnectedPair pair;
  ASSERT_EQ(rdma_disconnect(pair.active.get()), 0);
  EXPECT_EQ(rdma_disconnect(pair.active.get()), 0);
  pair.listener.channel.expect(RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_FALSE(pair.listener.channel.is_ready(50));
}

// cm.c, DREQ_ERROR: DISCONNECTED comes as well, with the error.
TEST(Disconnect, PeerThatNeverAnswersTimesOut) {
  ConnectedPair pair;
  set_response_timeout(300);
  ASSERT_EQ(rdma_disconnect(pair.active.get()), 0);
  set_response_timeout(0);
  pair.channel.expect(RDMA_CM_EVENT_DISCONNECTED, -ETIMEDOUT);
}

// ucma.c, ucma_close: the kernel destroys the ids of a closed file.
TEST(Disconnect, ChannelThatIsClosedDisconnects) {
  Listener listener;
  Parameters parameters;
  EventChannel survivor;
  const Id active = resolved_id(survivor, listener.address);
  ASSERT_EQ(rdma_connect(active.get(), &parameters.value), 0);
  rdma_cm_id* const passive = listener.channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST).id;
  ASSERT_EQ(rdma_accept(passive, &parameters.value), 0);
  survivor.expect(RDMA_CM_EVENT_CONNECT_RESPONSE);
  ASSERT_EQ(rdma_establish(active.get()), 0);
  listener.channel.expect(RDMA_CM_EVENT_ESTABLISHED);
  // librdmacm cannot free an id whose channel is gone, so the listener's id and `passive` are left.
  (void)listener.id.release();
  listener.channel.close();
  survivor.expect(RDMA_CM_EVENT_DISCONNECTED);
}

}  // namespace
}  // namespace hbmwire::test
