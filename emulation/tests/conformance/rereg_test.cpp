// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cerrno>
#include <vector>

#include "emulation/tests/conformance/link.hpp"

/// ibv_rereg_mr: changing a region's rights, domain and memory.
namespace hbmwire::conformance {
namespace {

class Reregistration : public Conformance {
 protected:
  void SetUp() override {
    Conformance::SetUp();
    source("man ibv_rereg_mr; IBTA vol. 1, chapter 11, Reregister Memory Region");
    mr = nic.make_mr(nic.pd(), link.b.buffer.data(), 4096, kAllAccess);
  }

  /// Changes the region. Returns a reason if the device does not support that, else "".
  std::string change(int flags, ibv_pd* pd, void* address, std::size_t length, int access) {
    const int result = ibv_rereg_mr(mr.get(), flags, pd, address, length, access);
    if (result == IBV_REREG_MR_ERR_CMD && (errno == EOPNOTSUPP || errno == ENOSYS))
      return "the device does not reregister memory in this way";
    EXPECT_EQ(result, 0) << "ibv_rereg_mr, flags " << flags << ": " << errno_name(errno);
    return "";
  }

  /// WRITEs to the region by its key, and expects the WRITE to be allowed or refused.
  void expect_write(std::size_t offset, bool allowed, std::uint32_t length = 8) {
    ibv_send_wr request = link.request(IBV_WR_RDMA_WRITE, 1, offset);
    request.wr.rdma.rkey = mr->rkey;
    ASSERT_EQ(link.a.post(request, 0, length), 0);
    link.a.expect_sent(1, allowed ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);
  }

  Link link{nic, Transport::rc};
  Mr mr;
};

TEST_F(Reregistration, TakesRightsAway) {
  expect_write(0, true);
  HBMWIRE_NEED(change(IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
                      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ));
  expect_write(0, false);
}

TEST_F(Reregistration, GivesRights) {
  HBMWIRE_NEED(change(IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0));
  HBMWIRE_NEED(change(IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, kAllAccess));
  expect_write(0, true);
}

TEST_F(Reregistration, ChangesTheDomain) {
  const Pd other = nic.make_pd();
  HBMWIRE_NEED(change(IBV_REREG_MR_CHANGE_PD, other.get(), nullptr, 0, 0));
  EXPECT_EQ(mr->pd, other.get());
  expect_write(0, false);
  mr.reset();
}

TEST_F(Reregistration, DomainsAreHeldByTheirRegionsOnly) {
  source("man ibv_rereg_mr, ibv_dealloc_pd; Linux drivers/infiniband/core: usecnt of both PDs");
  Pd first = nic.make_pd();
  Pd second = nic.make_pd();
  mr = nic.make_mr(first.get(), link.b.buffer.data(), 4096, kAllAccess);
  const std::string missing = change(IBV_REREG_MR_CHANGE_PD, second.get(), nullptr, 0, 0);
  if (!missing.empty()) mr.reset();
  HBMWIRE_NEED(missing);
  EXPECT_EQ(ibv_dealloc_pd(second.get()), EBUSY);
  EXPECT_EQ(ibv_dealloc_pd(first.release()), 0) << "no object belongs to it any more";
  mr.reset();
}

TEST_F(Reregistration, ChangesTheMemory) {
  HBMWIRE_NEED(
      change(IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, link.b.buffer.data() + 8192, 2048, 0));
  EXPECT_EQ(mr->addr, link.b.buffer.data() + 8192);
  EXPECT_EQ(mr->length, 2048U);
  link.a.fill(0, 2048, 5);
  expect_write(8192, true, 2048);
  link.b.expect_filled(8192, 2048, 5);
  expect_write(0, false);
}

TEST_F(Reregistration, BoundsAreThoseOfTheNewMemory) {
  HBMWIRE_NEED(change(IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, link.b.buffer.data(), 100, 0));
  // The 8 bytes from 92 on are the last of the 100.
  expect_write(92, true);
  expect_write(93, false);
}

TEST_F(Reregistration, ChangesEverythingAtOnce) {
  const Pd other = nic.make_pd();
  HBMWIRE_NEED(
      change(IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS,
             other.get(), link.b.buffer.data() + 4096, 4096, IBV_ACCESS_REMOTE_READ));
  Link inside(nic, Transport::rc, {.b = {.pd = other.get()}});
  ibv_send_wr read = inside.request(IBV_WR_RDMA_READ, 1);
  read.wr.rdma.rkey = mr->rkey;
  read.wr.rdma.remote_addr = link.to_b.buffer + 4096;
  ASSERT_EQ(inside.a.post(read, 0, 64), 0);
  inside.a.expect_sent(1);
  mr.reset();
}

TEST_F(Reregistration, WorksForLocalAccessToo) {
  HBMWIRE_NEED(change(IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, link.a.buffer.data(), 4096, 0));
  link.a.fill(0, 64, 6);
  ASSERT_EQ(link.receive(2, 100, 64), 0);
  ibv_sge element = link.a.element(0, 64);
  element.lkey = mr->lkey;
  ASSERT_EQ(link.a.post(link.request(IBV_WR_SEND, 1), {element}), 0);
  link.a.expect_sent(1);
  link.b.expect_received(2);
  link.b.expect_filled(100, 64, 6);
}

TEST_F(Reregistration, RefusesUnknownFlags) {
  source("man ibv_rereg_mr: IBV_REREG_MR_ERR_INPUT, the old MR is valid");
  EXPECT_EQ(ibv_rereg_mr(mr.get(), 1 << 10, nullptr, nullptr, 0, 0), IBV_REREG_MR_ERR_INPUT);
  expect_write(0, true);
}

TEST_F(Reregistration, RefusesToChangeNothing) {
  source("Linux drivers/infiniband/core/uverbs_cmd.c, ib_uverbs_rereg_mr: no flags, EINVAL");
  EXPECT_NE(ibv_rereg_mr(mr.get(), 0, nullptr, nullptr, 0, 0), 0);
}

TEST_F(Reregistration, RefusesRightsWithoutTheirFlag) {
  source("man ibv_rereg_mr: IBV_REREG_MR_ERR_INPUT, the old MR is valid");
  EXPECT_EQ(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_PD, nic.pd(), nullptr, 0, kAllAccess),
            IBV_REREG_MR_ERR_INPUT);
  expect_write(0, true);
}

TEST_F(Reregistration, RefusesMemoryOfNoLength) {
  source("man ibv_rereg_mr: IBV_REREG_MR_ERR_INPUT, the old MR is valid");
  EXPECT_EQ(
      ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, link.b.buffer.data(), 0, 0),
      IBV_REREG_MR_ERR_INPUT);
  expect_write(0, true);
}

TEST_F(Reregistration, RefusesRightsThatARegionCanNotHave) {
  source("man ibv_reg_mr: remote write needs local write; man ibv_rereg_mr: IBV_REREG_MR_ERR_CMD");
  EXPECT_NE(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
                         IBV_ACCESS_REMOTE_WRITE),
            0);
}

}  // namespace
}  // namespace hbmwire::conformance
