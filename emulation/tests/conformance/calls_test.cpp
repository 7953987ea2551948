// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>

#include "emulation/tests/conformance/link.hpp"

/// Calls with one wrong parameter, and the error number of each. The kernel checks most parameters
/// above the driver, so all devices return the same number.
namespace hbmwire::conformance {
namespace {

constexpr unsigned char kFarPort = 200;  // no device has so many ports

struct BadCall {
  const char* name;
  int (*call)(const Nic& nic);  // returns 0 or an error number, which may come from errno
  int expected;
};

/// The error of a call that creates an object, which is destroyed if it was created.
template <auto kDestroy, typename Object>
int error_of(Object* object) {
  if (object == nullptr) return errno;
  report_destroy("destroying", kDestroy(object));
  return 0;
}

int error_of_cq(const Nic& nic, int depth, int vector) {
  return error_of<ibv_destroy_cq>(ibv_create_cq(nic.context(), depth, nullptr, nullptr, vector));
}

int error_of_qp(const Nic& nic, const ibv_qp_cap& cap) {
  const Cq cq = nic.make_cq(4);
  ibv_qp_init_attr initial{};
  initial.send_cq = cq.get();
  initial.recv_cq = cq.get();
  initial.cap = cap;
  initial.qp_type = IBV_QPT_RC;
  return error_of<ibv_destroy_qp>(ibv_create_qp(nic.pd(), &initial));
}

int error_of_srq(const Nic& nic, const ibv_srq_attr& attributes) {
  ibv_srq_init_attr initial{nullptr, attributes};
  return error_of<ibv_destroy_srq>(ibv_create_srq(nic.pd(), &initial));
}

int error_of_mr(const Nic& nic, void* address, std::size_t length, int access) {
  return error_of<ibv_dereg_mr>((ibv_reg_mr)(nic.pd(), address, length, access));
}

int error_of_ah(const Nic& nic, ibv_ah_attr path) {
  return error_of<ibv_destroy_ah>(ibv_create_ah(nic.pd(), &path));
}

/// The last entry of the table that an index can name. It was empty on every device that the suite
/// was tried on.
std::uint8_t last_gid_of(const Nic& nic) {
  return static_cast<std::uint8_t>(std::min(nic.port().gid_tbl_len, 256) - 1);
}

/// The error of a move to RTR whose path has an empty entry of the GID table as its source.
int error_of_empty_gid(const Nic& nic) {
  Side side(nic, {.bytes = 64});
  if (const int error = side.to_init(); error != 0) return error;
  ibv_qp_attr values = side.attributes({.qpn = side.qp->qp_num});
  values.qp_state = IBV_QPS_RTR;
  values.ah_attr.grh.sgid_index = last_gid_of(nic);
  return side.modify(values, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                 IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

/// The error of a move to INIT whose values or mask were spoiled.
int error_of_init(const Nic& nic, void (*spoil)(ibv_qp_attr& values, int& mask)) {
  Side side(nic, {.bytes = 64});
  ibv_qp_attr values = side.attributes({});
  values.qp_state = IBV_QPS_INIT;
  int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  spoil(values, mask);
  return side.modify(values, mask);
}

/// The error of attaching a QP, once or twice, to a group whose GID begins with this byte; 0xff is
/// multicast. The QP is detached again.
int error_of_attach(const Nic& nic, unsigned char first_byte, bool twice) {
  const Side side(nic, {.type = IBV_QPT_UD, .bytes = 64});
  ibv_gid group{};
  group.raw[0] = first_byte;
  group.raw[15] = 7;
  constexpr std::uint16_t kLid = 0xc001;
  int error = ibv_attach_mcast(side.qp.get(), &group, kLid);
  if (error == 0 && twice) error = ibv_attach_mcast(side.qp.get(), &group, kLid);
  if (error == 0) error = ibv_detach_mcast(side.qp.get(), &group, kLid);
  return error;
}

int error_of_srq_limit(const Nic& nic, std::uint32_t limit, int mask) {
  const Side side(nic, {.bytes = 64, .with_srq = true});
  ibv_srq_attr attributes{};
  attributes.srq_limit = attributes.max_wr = limit;
  return ibv_modify_srq(side.srq.get(), &attributes, mask);
}

int error_of_resize(const Nic& nic, int depth) {
  const Cq cq = nic.make_cq();
  return ibv_resize_cq(cq.get(), depth);
}

// The numbers of error_of_qp() are max_send_wr, max_recv_wr, max_send_sge, max_recv_sge and
// max_inline_data; those of error_of_srq() are max_wr, max_sge and srq_limit.
std::vector<BadCall> bad_calls() {
  return {
      {"CreateCqOfNoEntries", [](const Nic& nic) { return error_of_cq(nic, 0, 0); }, EINVAL},
      {"CreateCqThatIsTooLong",
       [](const Nic& nic) { return error_of_cq(nic, nic.limits().max_cqe + 1, 0); }, EINVAL},
      {"CreateCqOnAVectorThatIsNotThere",
       [](const Nic& nic) { return error_of_cq(nic, 4, nic.context()->num_comp_vectors); }, EINVAL},
      {"CreateQpWithTooManySends",
       [](const Nic& nic) {
         return error_of_qp(nic,
                            {static_cast<std::uint32_t>(nic.limits().max_qp_wr) + 1, 1, 1, 1, 0});
       },
       EINVAL},
      {"CreateQpWithTooManyElements",
       [](const Nic& nic) {
         return error_of_qp(nic,
                            {1, 1, static_cast<std::uint32_t>(nic.limits().max_sge) + 1, 1, 0});
       },
       EINVAL},
      {"CreateQpWithTooMuchInline",
       [](const Nic& nic) {
         return error_of_qp(nic, {1, 1, 1, 1, 1U << 20U});
       },
       EINVAL},
      {"CreateSrqOfNoEntries",
       [](const Nic& nic) {
         return error_of_srq(nic, {0, 1, 0});
       },
       EINVAL},
      {"CreateSrqThatIsTooLong",
       [](const Nic& nic) {
         return error_of_srq(nic, {static_cast<std::uint32_t>(nic.limits().max_srq_wr) + 1, 1, 0});
       },
       EINVAL},
      {"CreateSrqWithTooManyElements",
       [](const Nic& nic) {
         return error_of_srq(nic, {1, static_cast<std::uint32_t>(nic.limits().max_srq_sge) + 1, 0});
       },
       EINVAL},
      {"RegMrOfMemoryThatIsNotThere",
       [](const Nic& nic) { return error_of_mr(nic, nullptr, 4096, 0); }, EFAULT},
      {"RegMrForRemoteWritesAlone",
       [](const Nic& nic) {
         char byte = 0;
         return error_of_mr(nic, &byte, 1, IBV_ACCESS_REMOTE_WRITE);
       },
       EINVAL},
      {"RegMrForRemoteAtomicsAlone",
       [](const Nic& nic) {
         char byte = 0;
         return error_of_mr(nic, &byte, 1, IBV_ACCESS_REMOTE_ATOMIC);
       },
       EINVAL},
      {"RegMrWithARightThatIsUnknown",
       [](const Nic& nic) {
         char byte = 0;
         return error_of_mr(nic, &byte, 1, 1 << 19);
       },
       EINVAL},
      {"AllocMwOfAnUnknownType",
       [](const Nic& nic) {
         ibv_mw* const mw = ibv_alloc_mw(nic.pd(), static_cast<ibv_mw_type>(3));
         return error_of<dealloc_mw>(mw);
       },
       EINVAL},
      {"CreateAhOnAPortThatIsNotThere",
       [](const Nic& nic) {
         ibv_ah_attr path = nic.path();
         path.port_num = kFarPort;
         return error_of_ah(nic, path);
       },
       EINVAL},
      {"CreateAhOfAnEmptyGidOnEthernet",
       [](const Nic& nic) {
         ibv_ah_attr path = nic.path();
         path.grh.sgid_index = last_gid_of(nic);
         return error_of_ah(nic, path);
       },
       ENODATA},
      {"ModifyQpToAPathFromAnEmptyGidOnEthernet", error_of_empty_gid, ENODATA},
      {"CreateAhWithoutARouteOnEthernet",
       [](const Nic& nic) {
         ibv_ah_attr path = nic.path();
         path.is_global = 0;
         return error_of_ah(nic, path);
       },
       EINVAL},
      {"ModifyQpToAPortThatIsNotThere",
       [](const Nic& nic) {
         return error_of_init(nic, [](ibv_qp_attr& values, int&) { values.port_num = kFarPort; });
       },
       EINVAL},
      {"ModifyQpWithoutWhatIsRequired",
       [](const Nic& nic) {
         return error_of_init(nic, [](ibv_qp_attr&, int& mask) { mask &= ~IBV_QP_PORT; });
       },
       EINVAL},
      {"ModifyQpWithMoreThanIsTaken",
       [](const Nic& nic) {
         return error_of_init(nic, [](ibv_qp_attr&, int& mask) { mask |= IBV_QP_SQ_PSN; });
       },
       EINVAL},
      {"ModifyQpFromAnotherState",
       [](const Nic& nic) {
         return error_of_init(nic, [](ibv_qp_attr& values, int& mask) {
           values.cur_qp_state = IBV_QPS_RTS;
           mask |= IBV_QP_CUR_STATE;
         });
       },
       EINVAL},
      {"ModifyQpToAnUnknownState",
       [](const Nic& nic) {
         return error_of_init(nic,
                              [](ibv_qp_attr& values, int&) { values.qp_state = IBV_QPS_UNKNOWN; });
       },
       EINVAL},
      {"QueryPortZero",
       [](const Nic& nic) {
         ibv_port_attr port{};
         return ibv_query_port(nic.context(), 0, &port);
       },
       EINVAL},
      {"AttachToWhatIsNoGroup", [](const Nic& nic) { return error_of_attach(nic, 0xfe, false); },
       EINVAL},
      {"AttachTwice", [](const Nic& nic) { return error_of_attach(nic, 0xff, true); }, 0},
      {"ModifySrqToALimitAboveItsLength",
       [](const Nic& nic) { return error_of_srq_limit(nic, 1U << 20U, IBV_SRQ_LIMIT); }, EINVAL},
      {"ModifySrqToMoreThanTheDeviceHas",
       [](const Nic& nic) { return error_of_srq_limit(nic, 1U << 30U, IBV_SRQ_MAX_WR); }, EINVAL},
      {"ResizeCqToNothing", [](const Nic& nic) { return error_of_resize(nic, 0); }, EINVAL},
      {"ResizeCqToMoreThanTheDeviceHas",
       [](const Nic& nic) { return error_of_resize(nic, nic.limits().max_cqe + 1); }, EINVAL},
  };
}

class BadCalls : public ConformanceOf<BadCall> {};

TEST_P(BadCalls, HaveTheErrorOfTheTable) {
  source(
      "Linux drivers/infiniband/core/uverbs_cmd.c, verbs.c, umem.c; the manual page of the call");
  const BadCall& row = GetParam();
  const int error = row.call(nic);
  EXPECT_EQ(error, row.expected) << errno_name(error) << ", not " << errno_name(row.expected);
}

INSTANTIATE_TEST_SUITE_P(All, BadCalls, testing::ValuesIn(bad_calls()),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace hbmwire::conformance
