// SPDX-License-Identifier: MIT
#include <cerrno>

#include "emulation/tests/nic/under_plan.hpp"
#include "emulation/tests/rdma_cm/cm_handles.hpp"

/// Faults at each call and step of a connection leave no records, and no call waits for ever.
namespace hbmwire::test {
namespace {

constexpr int kInjected = EREMOTEIO;

/// A connection of this process to itself, without a queue pair. Returns false if a call failed.
bool connect_once() {
  rdma_event_channel* const channel = rdma_create_event_channel();
  if (channel == nullptr) return false;
  rdma_cm_id* listener = nullptr;
  rdma_cm_id* active = nullptr;
  rdma_cm_id* passive = nullptr;
  rdma_cm_event* event = nullptr;
  Parameters parameters;
  // Takes the next event. Returns whether it has this type.
  const auto comes = [&](rdma_cm_event_type type) {
    if (rdma_get_cm_event(channel, &event) != 0) return false;
    const bool is_it = event->event == type;
    if (type == RDMA_CM_EVENT_CONNECT_REQUEST && is_it) passive = event->id;
    rdma_ack_cm_event(event);
    return is_it;
  };
  const auto run = [&] {
    if (rdma_create_id(channel, &listener, nullptr, RDMA_PS_TCP) != 0) return false;
    if (rdma_bind_addr(listener, nic_address().get()) != 0) return false;
    if (rdma_listen(listener, 1) != 0) return false;
    if (rdma_create_id(channel, &active, nullptr, RDMA_PS_TCP) != 0) return false;
    Address to = nic_address(0, ntohs(rdma_get_src_port(listener)));
    if (rdma_resolve_addr(active, nullptr, to.get(), kTimeoutMs) != 0) return false;
    if (!comes(RDMA_CM_EVENT_ADDR_RESOLVED)) return false;
    if (rdma_resolve_route(active, kTimeoutMs) != 0) return false;
    if (!comes(RDMA_CM_EVENT_ROUTE_RESOLVED)) return false;
    if (rdma_connect(active, &parameters.value) != 0) return false;
    if (!comes(RDMA_CM_EVENT_CONNECT_REQUEST)) return false;
    if (rdma_accept(passive, &parameters.value) != 0) return false;
    if (!comes(RDMA_CM_EVENT_CONNECT_RESPONSE)) return false;
    return rdma_establish(active) == 0 && comes(RDMA_CM_EVENT_ESTABLISHED);
  };
  const bool connected = run();
  for (rdma_cm_id* id : {passive, active, listener}) {
    if (id != nullptr) rdma_destroy_id(id);
  }
  rdma_destroy_event_channel(channel);
  return connected;
}

TEST(Faults, AFailureOfAnyCallLeavesNoRecords) {
  ASSERT_TRUE(connect_once());
  const unsigned before = live_records();
  long failed = 0;
  for (long n = 0; n < 200; ++n) {
    fail_nth_call(n, kInjected);
    const bool connected = connect_once();
    // The hook returns the number of calls. If it is not above n, no call was made to fail.
    const bool all_ran = fail_nth_call(-1, 0) <= n;
    EXPECT_EQ(live_records(), before) << "call " << n;
    if (all_ran) {
      EXPECT_TRUE(connected);
      break;
    }
    failed += connected ? 0 : 1;
  }
  // At least each call of connect_once() that is not made to destroy an object.
  EXPECT_GE(failed, 15);
}

class KillAtStepOfTables : public ::testing::TestWithParam<const char*> {};

TEST_P(KillAtStepOfTables, EndsTheProcessAndOthersGoOn) {
  // The test runs again in a child under the plan, which dies. Then this process connects.
  const std::string plan = "kill,at=" + std::string(GetParam()) + ",nth=6";
  if (is_under_plan(plan)) {
    connect_once();
    FAIL() << "no step has ended this process";
  }
  EXPECT_EQ(status_of(start_under(plan)), SIGKILL);
  EXPECT_TRUE(connect_once());
}

INSTANTIATE_TEST_SUITE_P(All, KillAtStepOfTables, ::testing::Values("cm_locked", "cm_telling"),
                         [](const auto& test) { return std::string(test.param); });

TEST(Faults, APlanTakesTheLinkDownAtACall) {
  if (!under_plan("link,call=rdma_bind_addr")) return;
  ibv_device** const devices = ibv_get_device_list(nullptr);
  ibv_context* const nic = ibv_open_device(devices[0]);
  ibv_free_device_list(devices);
  connect_once();
  ibv_port_attr port{};
  EXPECT_EQ(ibv_query_port(nic, 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_DOWN);
  ibv_close_device(nic);
}

}  // namespace
}  // namespace hbmwire::test
