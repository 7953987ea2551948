// SPDX-License-Identifier: MIT
#pragma once

#include <cerrno>
#include <memory>

#include "emulation/tests/conformance/link.hpp"

namespace hbmwire::conformance {

inline constexpr const char* kWindowSource =
    "man ibv_alloc_mw, ibv_bind_mw; IBTA vol. 1, chapter 10, Memory Windows, type 1 and type 2; "
    "chapter 9, R_Key check of a window";

inline constexpr int kBindable = kAllAccess | IBV_ACCESS_MW_BIND;

/// The end that owns the memory binds windows; its peer reads and writes through them.
class Windows : public ConformanceOf<ibv_mw_type> {
 protected:
  void SetUp() override {
    ConformanceOf::SetUp();
    source(kWindowSource);
    HBMWIRE_NEED(nic.lacks_windows(GetParam()));
    link = std::make_unique<Link>(nic, Transport::rc, LinkOptions{.b = {.mr_access = kBindable}});
    mw.reset(need(ibv_alloc_mw(nic.pd(), GetParam()), "ibv_alloc_mw"));
  }

  /// A range of the owner's region, for a bind.
  ibv_mw_bind_info place(std::size_t offset, std::size_t length, unsigned access = kRemoteAccess) {
    return {link->b.mr.get(), link->to_b.buffer + offset, length, access};
  }

  /// Posts a bind. Returns 0 or errno. A type 2 window gets the next key.
  int post_bind(const ibv_mw_bind_info& where, std::uint64_t id) {
    if (GetParam() == IBV_MW_TYPE_1) {
      ibv_mw_bind bind{};
      bind.wr_id = id;
      bind.send_flags = IBV_SEND_SIGNALED;
      bind.bind_info = where;
      return ibv_bind_mw(link->b.qp.get(), mw.get(), &bind);
    }
    ibv_send_wr request{};
    request.wr_id = id;
    request.opcode = IBV_WR_BIND_MW;
    request.send_flags = IBV_SEND_SIGNALED;
    request.bind_mw.mw = mw.get();
    request.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
    request.bind_mw.bind_info = where;
    ibv_send_wr* bad = nullptr;
    const int error = ibv_post_send(link->b.qp.get(), &request, &bad);
    if (error == 0) mw->rkey = request.bind_mw.rkey;
    return error;
  }

  /// Binds the window, which must succeed.
  void bind(const ibv_mw_bind_info& where) {
    ASSERT_EQ(post_bind(where, 500), 0);
    EXPECT_EQ(link->b.expect_sent(500).opcode, IBV_WC_BIND_MW);
  }

  /// Expects the bind to be refused when it is posted or when it is executed.
  void expect_no_bind(const ibv_mw_bind_info& where) {
    const int error = post_bind(where, 500);
    if (error != 0) {
      EXPECT_TRUE(error == EINVAL || error == EPERM || error == EOPNOTSUPP) << errno_name(error);
      return;
    }
    const auto completion = wait_completion(link->b.send_cq.get());
    ASSERT_TRUE(completion.has_value()) << "no completion of the bind";
    EXPECT_TRUE(completion->status == IBV_WC_MW_BIND_ERR ||
                completion->status == IBV_WC_LOC_PROT_ERR ||
                completion->status == IBV_WC_LOC_QP_OP_ERR)
        << ibv_wc_status_str(completion->status);
    EXPECT_EQ(link->b.state(), IBV_QPS_ERR);
  }

  /// The peer's request to an offset of the owner's buffer, by the window's key.
  ibv_send_wr through_window(ibv_wr_opcode opcode, std::uint64_t id, std::size_t offset) {
    ibv_send_wr request = link->request(opcode, id, offset);
    request.wr.rdma.rkey = mw->rkey;
    return request;
  }

  /// Expects the peer's request through the window to be allowed or refused.
  void expect_access(ibv_wr_opcode opcode, std::size_t offset, std::uint32_t length, bool allowed) {
    ASSERT_EQ(link->a.post(through_window(opcode, 1, offset), 0, length), 0);
    link->a.expect_sent(1, allowed ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);
  }

  std::unique_ptr<Link> link;
  Mw mw;
};

}  // namespace hbmwire::conformance
