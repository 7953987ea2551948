// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "emulation/tests/conformance/link.hpp"

/// Multicast groups: their members, and delivery of messages to them.
namespace hbmwire::conformance {
namespace {

constexpr const char* kAttachSource =
    "man ibv_attach_mcast; Linux drivers/infiniband/core/verbs.c, ib_attach_mcast: EINVAL";

class Multicast : public Conformance {
 protected:
  void SetUp() override {
    Conformance::SetUp();
    HBMWIRE_NEED(nic.lacks(IBV_QPT_UD));
    HBMWIRE_NEED(nic.lacks_multicast());
    // A group of the same kind as the port's GID: 239.255.x.y for IPv4, else a transient group of
    // the site.
    static constexpr std::uint8_t kIpv4Prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    if (std::equal(std::begin(kIpv4Prefix), std::end(kIpv4Prefix), nic.gid().raw)) {
      std::memcpy(group.raw, kIpv4Prefix, sizeof kIpv4Prefix);
      group.raw[12] = 239;
      group.raw[13] = 255;
    } else {
      group.raw[0] = 0xff;
      group.raw[1] = 0x15;
    }
    group.raw[14] = 77;
    group.raw[15] = 1;
    ibv_ah_attr path = nic.path();
    path.is_global = 1;
    path.grh.dgid = group;
    path.grh.sgid_index = nic.gid_index();
    path.grh.hop_limit = 1;
    if (!nic.is_ethernet()) path.dlid = kLid;
    to_group.reset(need(ibv_create_ah(nic.pd(), &path), "ibv_create_ah to a group"));
    sender = make();
  }

  std::unique_ptr<Side> make() {
    auto side = std::make_unique<Side>(nic, SideOptions{.type = IBV_QPT_UD});
    side->connect({});
    return side;
  }

  void send(std::uint64_t id) {
    constexpr std::uint32_t kEveryMember = 0xffffff;
    ibv_send_wr request = sender->request(IBV_WR_SEND, id, {.qpn = kEveryMember});
    request.wr.ud.ah = to_group.get();
    ASSERT_EQ(sender->post(request, 0, 32), 0);
    sender->expect_sent(id);
  }

  int attach(const Side& side) { return ibv_attach_mcast(side.qp.get(), &group, kLid); }

  int detach(const Side& side) { return ibv_detach_mcast(side.qp.get(), &group, kLid); }

  static constexpr std::uint16_t kLid = 0xc001;  // of the group, for InfiniBand
  ibv_gid group{};
  Ah to_group;
  std::unique_ptr<Side> sender;
};

TEST_F(Multicast, EveryMemberGetsACopy) {
  source("man ibv_attach_mcast; IBTA vol. 1, chapter 10, multicast: each attached QP gets a copy");
  std::vector<std::unique_ptr<Side>> members;
  for (std::uint64_t id = 0; id < 3; ++id) {
    members.push_back(make());
    ASSERT_EQ(attach(*members.back()), 0);
    ASSERT_EQ(members.back()->receive(id, 0, 32 + kGrhBytes), 0);
  }
  sender->fill(0, 32, 7);
  send(10);
  for (std::uint64_t id = 0; id < 3; ++id) {
    const ibv_wc received = members[id]->expect_received(id);
    EXPECT_EQ(received.src_qp, sender->qp->qp_num);
    EXPECT_EQ(received.byte_len, 32 + kGrhBytes);
    EXPECT_NE(received.wc_flags & IBV_WC_GRH, 0U) << "a multicast packet always has a GRH";
    members[id]->expect_filled(kGrhBytes, 32, 7);
  }
  for (const auto& member : members) EXPECT_EQ(detach(*member), 0);
}

TEST_F(Multicast, AnUnattachedQpGetsNothing) {
  source(kAttachSource);
  const auto member = make();
  const auto stranger = make();
  ASSERT_EQ(attach(*member), 0);
  ASSERT_EQ(member->receive(1, 0, 32 + kGrhBytes), 0);
  ASSERT_EQ(stranger->receive(2, 0, 32 + kGrhBytes), 0);
  send(10);
  member->expect_received(1);
  stranger->expect_silence(stranger->recv_cq);
  EXPECT_EQ(detach(*member), 0);
}

TEST_F(Multicast, ADetachedQpGetsNothingMore) {
  source(kAttachSource);
  const auto member = make();
  ASSERT_EQ(attach(*member), 0);
  ASSERT_EQ(member->receive(1, 0, 32 + kGrhBytes), 0);
  ASSERT_EQ(member->receive(2, 0, 32 + kGrhBytes), 0);
  send(10);
  member->expect_received(1);
  ASSERT_EQ(detach(*member), 0);
  send(11);
  member->expect_silence(member->recv_cq);
}

TEST_F(Multicast, AttachedTwiceMeansOneCopy) {
  source("man ibv_attach_mcast: attached several times, it still receives a single copy");
  const auto member = make();
  ASSERT_EQ(attach(*member), 0);
  EXPECT_EQ(attach(*member), 0);
  ASSERT_EQ(member->receive(1, 0, 32 + kGrhBytes), 0);
  ASSERT_EQ(member->receive(2, 0, 32 + kGrhBytes), 0);
  send(10);
  member->expect_received(1);
  member->expect_silence(member->recv_cq);
  EXPECT_EQ(detach(*member), 0);
}

TEST_F(Multicast, OnlyAMemberWithoutAReceiveMissesTheMessage) {
  source("IBTA vol. 1, chapter 10, multicast: unreliable; one QP's shortage is not another's");
  const auto poor = make();
  const auto rich = make();
  ASSERT_EQ(attach(*poor), 0);
  ASSERT_EQ(attach(*rich), 0);
  ASSERT_EQ(rich->receive(1, 0, 32 + kGrhBytes), 0);
  send(10);
  rich->expect_received(1);
  poor->expect_silence(poor->recv_cq);
  EXPECT_EQ(detach(*poor), 0);
  EXPECT_EQ(detach(*rich), 0);
}

TEST_F(Multicast, MemberWithAnotherQkeyGetsNothing) {
  source("IBTA vol. 1, chapter 9, Q_Key check: for multicast packets as well");
  const auto member = make();
  ASSERT_EQ(attach(*member), 0);
  ibv_qp_attr values{};
  values.qp_state = IBV_QPS_RTS;
  values.qkey = kQkey + 5;
  ASSERT_EQ(member->modify(values, IBV_QP_STATE | IBV_QP_QKEY), 0);
  ASSERT_EQ(member->receive(1, 0, 32 + kGrhBytes), 0);
  send(10);
  member->expect_silence(member->recv_cq);
  EXPECT_EQ(detach(*member), 0);
}

TEST_F(Multicast, AMemberOfAnotherGroupGetsNothing) {
  source(kAttachSource);
  const auto member = make();
  ibv_gid other = group;
  other.raw[15] = 2;
  ASSERT_EQ(ibv_attach_mcast(member->qp.get(), &other, kLid), 0);
  ASSERT_EQ(member->receive(1, 0, 32 + kGrhBytes), 0);
  send(10);
  member->expect_silence(member->recv_cq);
  EXPECT_EQ(ibv_detach_mcast(member->qp.get(), &other, kLid), 0);
}

TEST_F(Multicast, OnlyUdQpsAttach) {
  source("man ibv_attach_mcast: only QPs of type IBV_QPT_UD; Linux: EINVAL");
  const Side rc(nic, {.type = IBV_QPT_RC});
  EXPECT_EQ(attach(rc), EINVAL);
}

TEST_F(Multicast, GroupMustBeAMulticastGid) {
  source(kAttachSource);
  const auto member = make();
  EXPECT_EQ(ibv_attach_mcast(member->qp.get(), &nic.gid(), kLid), EINVAL);
}

TEST_F(Multicast, OnlyMembersCanLeave) {
  source("man ibv_detach_mcast; Linux rxe_mcast_detach: EINVAL");
  const auto member = make();
  EXPECT_EQ(detach(*member), EINVAL);
  ASSERT_EQ(attach(*member), 0);
  EXPECT_EQ(detach(*member), 0);
  EXPECT_EQ(detach(*member), EINVAL);
}

TEST_F(Multicast, AnAttachedQpCannotBeDestroyed) {
  source("man ibv_destroy_qp: fails if the QP is attached to a multicast group; Linux: EBUSY");
  const auto member = make();
  ASSERT_EQ(attach(*member), 0);
  EXPECT_EQ(ibv_destroy_qp(member->qp.get()), EBUSY);
  EXPECT_EQ(detach(*member), 0);
}

}  // namespace
}  // namespace hbmwire::conformance
