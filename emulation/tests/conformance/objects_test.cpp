// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <set>

#include "emulation/tests/conformance/link.hpp"

/// Objects and their dependencies: an object is not destroyed while another one needs it.
namespace hbmwire::conformance {
namespace {

constexpr const char* kPdSource =
    "man ibv_dealloc_pd: may fail if any other resource is still associated; Linux "
    "drivers/infiniband/core/verbs.c: usecnt, EBUSY";
constexpr const char* kCqSource =
    "man ibv_destroy_cq: fails if any queue pair is still associated; IBTA vol. 1, chapter 11, "
    "Destroy Completion Queue, C11-17; Linux drivers/infiniband/core: EBUSY";

class Objects : public Conformance {
 protected:
  Pd pd = nic.make_pd();
  std::array<unsigned char, 4096> memory{};
};

TEST_F(Objects, AContextOpensTwice) {
  source("man ibv_open_device: returns a context, of which there may be many");
  const Nic other;
  EXPECT_NE(other.context(), nic.context());
  EXPECT_NE(other.context()->async_fd, nic.context()->async_fd);
}

TEST_F(Objects, PdStaysWhileItHasAnMr) {
  source(kPdSource);
  Mr mr = nic.make_mr(pd.get(), memory.data(), memory.size(), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd.get()), EBUSY);
  mr.reset();
  EXPECT_EQ(ibv_dealloc_pd(pd.release()), 0);
}

TEST_F(Objects, PdStaysWhileItHasAnAh) {
  source(kPdSource);
  HBMWIRE_NEED(nic.is_ethernet() ? "" : "on InfiniBand address handles may live in user space");
  ibv_ah_attr path = nic.path();
  Ah ah(need(ibv_create_ah(pd.get(), &path), "ibv_create_ah"));
  EXPECT_EQ(ibv_dealloc_pd(pd.get()), EBUSY);
  ah.reset();
  EXPECT_EQ(ibv_dealloc_pd(pd.release()), 0);
}

TEST_F(Objects, PdStaysWhileItHasAnSrq) {
  source(kPdSource);
  HBMWIRE_NEED(nic.lacks_srq());
  ibv_srq_init_attr initial{};
  initial.attr = {4, 1, 0};
  Srq srq(need(ibv_create_srq(pd.get(), &initial), "ibv_create_srq"));
  EXPECT_EQ(ibv_dealloc_pd(pd.get()), EBUSY);
  srq.reset();
  EXPECT_EQ(ibv_dealloc_pd(pd.release()), 0);
}

class PdWithWindow : public ConformanceOf<ibv_mw_type> {};

TEST_P(PdWithWindow, CannotBeDeallocated) {
  source(kPdSource);
  HBMWIRE_NEED(nic.lacks_windows(GetParam()));
  Pd pd = nic.make_pd();
  Mw mw(need(ibv_alloc_mw(pd.get(), GetParam()), "ibv_alloc_mw"));
  EXPECT_EQ(ibv_dealloc_pd(pd.get()), EBUSY);
  mw.reset();
  EXPECT_EQ(ibv_dealloc_pd(pd.release()), 0);
}

INSTANTIATE_TEST_SUITE_P(All, PdWithWindow, testing::Values(IBV_MW_TYPE_1, IBV_MW_TYPE_2),
                         [](const auto& row) {
                           return "Type" + std::to_string(static_cast<int>(row.param));
                         });

class ObjectsOfQp : public ConformanceOf<ibv_qp_type> {};

TEST_P(ObjectsOfQp, StayWhileTheQpExists) {
  source(std::string(kPdSource) + "; " + kCqSource);
  HBMWIRE_NEED(nic.lacks(GetParam()));
  Pd pd = nic.make_pd();
  Side side(nic, {.type = GetParam(), .bytes = 64, .pd = pd.get()});
  side.mr.reset();
  side.ah.reset();
  if (GetParam() == IBV_QPT_XRC_RECV) {
    EXPECT_EQ(ibv_close_xrcd(side.xrcd.get()), EBUSY) << "the XRC domain has an SRQ and a QP";
    EXPECT_EQ(ibv_destroy_cq(side.recv_cq.get()), EBUSY) << "the CQ is the XRC SRQ's";
    EXPECT_EQ(ibv_dealloc_pd(pd.get()), EBUSY) << "the PD is the XRC SRQ's";
  } else {
    EXPECT_EQ(ibv_destroy_cq(side.send_cq.get()), EBUSY);
    EXPECT_EQ(ibv_dealloc_pd(pd.get()), EBUSY);
    if (GetParam() != IBV_QPT_XRC_SEND) {
      EXPECT_EQ(ibv_destroy_cq(side.recv_cq.get()), EBUSY);
    }
  }
  EXPECT_EQ(ibv_destroy_qp(side.qp.release()), 0);
  if (side.srq) {
    EXPECT_EQ(ibv_destroy_srq(side.srq.release()), 0);
  }
  EXPECT_EQ(ibv_destroy_cq(side.send_cq.release()), 0);
  EXPECT_EQ(ibv_destroy_cq(side.recv_cq.release()), 0);
  if (side.xrcd) {
    EXPECT_EQ(ibv_close_xrcd(side.xrcd.release()), 0);
  }
  EXPECT_EQ(ibv_dealloc_pd(pd.release()), 0);
}

TEST_P(ObjectsOfQp, TheQpCanBeDestroyedInEveryState) {
  source("man ibv_destroy_qp; IBTA vol. 1, chapter 11, Destroy Queue Pair: in any state");
  HBMWIRE_NEED(nic.lacks(GetParam()));
  for (int steps = 0; steps < 5; ++steps) {
    Side side(nic, {.type = GetParam(), .bytes = 64});
    const Address peer{.qpn = side.qp->qp_num};
    EXPECT_EQ(steps > 0 ? side.to_init() : 0, 0);
    EXPECT_EQ(steps > 1 ? side.to_rtr(peer) : 0, 0);
    EXPECT_EQ(steps > 2 ? side.to_rts() : 0, 0);
    EXPECT_EQ(steps > 3 ? side.to(IBV_QPS_ERR) : 0, 0);
    EXPECT_EQ(ibv_destroy_qp(side.qp.release()), 0) << steps << " steps from RESET";
  }
}

TEST_P(ObjectsOfQp, QpNumbersAreDifferent) {
  source("IBTA vol. 1, chapter 10, Queue Pairs: the QP number is 24 bits, unique within the port");
  HBMWIRE_NEED(nic.lacks(GetParam()));
  const Side first(nic, {.type = GetParam(), .bytes = 64});
  const Side second(nic, {.type = GetParam(), .bytes = 64});
  EXPECT_NE(first.qp->qp_num, second.qp->qp_num);
  EXPECT_LT(first.qp->qp_num, 1U << 24U);
  EXPECT_GT(first.qp->qp_num, 1U) << "0 and 1 are the management QPs";
}

INSTANTIATE_TEST_SUITE_P(All, ObjectsOfQp,
                         testing::Values(IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_SEND,
                                         IBV_QPT_XRC_RECV),
                         [](const auto& row) { return std::string(name_of(row.param)); });

TEST_F(Objects, SrqStaysWhileAQpUsesIt) {
  source("man ibv_destroy_srq: fails if any queue pair is still associated; Linux: EBUSY");
  HBMWIRE_NEED(nic.lacks_srq());
  Side side(nic, {.bytes = 64, .with_srq = true});
  EXPECT_EQ(ibv_destroy_srq(side.srq.get()), EBUSY);
  side.qp.reset();
  EXPECT_EQ(ibv_destroy_srq(side.srq.release()), 0);
}

TEST_F(Objects, XrcDomainStaysWhileAnSrqIsInIt) {
  source("man ibv_close_xrcd: may fail if any other resource is still associated; Linux: EBUSY");
  HBMWIRE_NEED(nic.lacks(IBV_QPT_XRC_RECV));
  Side side(nic, {.type = IBV_QPT_XRC_RECV, .bytes = 64});
  side.qp.reset();
  EXPECT_EQ(ibv_close_xrcd(side.xrcd.get()), EBUSY);
  side.srq.reset();
  EXPECT_EQ(ibv_close_xrcd(side.xrcd.release()), 0);
}

TEST_F(Objects, XrcDomainOfAFileIsSharedByItsInode) {
  source(
      "man ibv_open_xrcd: O_CREAT, O_EXCL and the inode of fd; Linux uverbs_cmd.c, "
      "ib_uverbs_open_xrcd: EAGAIN, EINVAL, EBADF");
  HBMWIRE_NEED(nic.lacks(IBV_QPT_XRC_RECV));
  const int fd = ::memfd_create("conformance-xrcd", MFD_CLOEXEC);
  ASSERT_GE(fd, 0);
  ibv_xrcd_init_attr initial{};
  initial.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  initial.fd = fd;
  initial.oflags = 0;
  EXPECT_EQ(ibv_open_xrcd(nic.context(), &initial), nullptr) << "it is not made yet";
  EXPECT_EQ(errno, EAGAIN) << errno_name(errno);
  initial.oflags = O_CREAT;
  Xrcd first(need(ibv_open_xrcd(nic.context(), &initial), "ibv_open_xrcd, O_CREAT"));
  initial.oflags = O_CREAT | O_EXCL;
  EXPECT_EQ(ibv_open_xrcd(nic.context(), &initial), nullptr) << "it is there already";
  EXPECT_EQ(errno, EINVAL) << errno_name(errno);
  initial.oflags = 0;
  const Xrcd second(need(ibv_open_xrcd(nic.context(), &initial), "ibv_open_xrcd again"));
  first.reset();
  const Xrcd third(need(ibv_open_xrcd(nic.context(), &initial), "ibv_open_xrcd after a close"));
  ::close(fd);
  EXPECT_EQ(ibv_open_xrcd(nic.context(), &initial), nullptr) << "the descriptor is closed";
  EXPECT_EQ(errno, EBADF) << errno_name(errno);
}

TEST_F(Objects, XrcDomainNeedsADescriptorAndFlags) {
  source("libibverbs/cmd.c, ibv_cmd_open_xrcd: EINVAL without IBV_XRCD_INIT_ATTR_FD or _OFLAGS");
  HBMWIRE_NEED(nic.lacks(IBV_QPT_XRC_RECV));
  for (const std::uint32_t mask : {IBV_XRCD_INIT_ATTR_FD, IBV_XRCD_INIT_ATTR_OFLAGS}) {
    ibv_xrcd_init_attr initial{};
    initial.comp_mask = mask;
    initial.fd = -1;
    initial.oflags = O_CREAT;
    EXPECT_EQ(ibv_open_xrcd(nic.context(), &initial), nullptr);
    EXPECT_EQ(errno, EINVAL) << errno_name(errno);
  }
}

TEST_F(Objects, CompletionChannelGoesAfterItsCqs) {
  source("man ibv_destroy_comp_channel: fails if any CQs are still associated: EBUSY");
  Channel channel = nic.make_channel();
  Cq cq = nic.make_cq(4, channel.get());
  EXPECT_EQ(ibv_destroy_comp_channel(channel.get()), EBUSY);
  cq.reset();
  EXPECT_EQ(ibv_destroy_comp_channel(channel.release()), 0);
}

TEST_F(Objects, HandlesNameTheirParents) {
  source("man ibv_create_cq: cq_context; man ibv_create_qp: qp_context; verbs.h: struct ibv_qp");
  int cookie = 0;
  const Cq cq = nic.make_cq(4, nullptr, &cookie);
  EXPECT_EQ(cq->context, nic.context());
  EXPECT_EQ(cq->cq_context, &cookie);
  EXPECT_EQ(cq->channel, nullptr);
  ibv_qp_init_attr initial{};
  initial.qp_context = &cookie;
  initial.send_cq = cq.get();
  initial.recv_cq = cq.get();
  initial.cap = {1, 1, 1, 1, 0};
  initial.qp_type = IBV_QPT_RC;
  const Qp qp(need(ibv_create_qp(pd.get(), &initial), "ibv_create_qp"));
  EXPECT_EQ(qp->context, nic.context());
  EXPECT_EQ(qp->qp_context, &cookie);
  EXPECT_EQ(qp->pd, pd.get());
  EXPECT_EQ(qp->send_cq, cq.get());
  EXPECT_EQ(qp->recv_cq, cq.get());
  EXPECT_EQ(qp->srq, nullptr);
  EXPECT_EQ(qp->qp_type, IBV_QPT_RC);
  const Mr mr = nic.make_mr(pd.get(), memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE);
  EXPECT_EQ(mr->context, nic.context());
  EXPECT_EQ(mr->pd, pd.get());
  EXPECT_EQ(mr->addr, memory.data());
  EXPECT_EQ(mr->length, memory.size());
}

TEST_F(Objects, KeysOfLivingRegionsAreDifferent) {
  source("IBTA vol. 1, chapter 10, Memory Regions: an L_Key and an R_Key name one region each");
  constexpr std::size_t kRegions = 64;
  std::vector<Mr> regions;
  std::set<std::uint32_t> lkeys;
  std::set<std::uint32_t> rkeys;
  for (std::size_t count = 0; count < kRegions; ++count) {
    regions.push_back(nic.make_mr(pd.get(), memory.data(), memory.size(), kAllAccess));
    lkeys.insert(regions.back()->lkey);
    rkeys.insert(regions.back()->rkey);
  }
  EXPECT_EQ(lkeys.size(), kRegions);
  EXPECT_EQ(rkeys.size(), kRegions);
}

TEST_F(Objects, ManyAreMadeAndDestroyedInTurn) {
  source("man ibv_create_qp, ibv_create_cq, ibv_reg_mr: what is destroyed is free again");
  constexpr int kRounds = 300;
  for (int round = 0; round < kRounds; ++round) {
    const Side side(nic, {.bytes = 64, .pd = pd.get()});
    ASSERT_FALSE(HasFailure()) << "in round " << round;
  }
}

}  // namespace
}  // namespace hbmwire::conformance
