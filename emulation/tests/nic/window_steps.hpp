// SPDX-License-Identifier: MIT
#pragma once

#include <gtest/gtest.h>

#include "emulation/tests/nic/endpoint.hpp"

/// Steps for tests of memory windows. By default, binds have the wr_id 7, invalidations 8, and
/// SENDs that invalidate 9; expect_completion() of a test names these numbers.
namespace hbmwire::test {

// The access rights of an MR to which windows can be bound, and rights that a window grants.
inline constexpr int kBindable = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;
inline constexpr unsigned kRemoteWrite = IBV_ACCESS_REMOTE_WRITE;
inline constexpr unsigned kRemoteRead = IBV_ACCESS_REMOTE_READ;

inline Mw alloc_window(const Endpoint& at, ibv_mw_type type) {
  return Mw(ibv_alloc_mw(at.pd.get(), type));
}

/// `a` accesses memory of `b`. The MR of `b` grants no remote rights; only its windows do.
struct WindowPair : Pair {
  explicit WindowPair(int access = kBindable) : Pair({}, {.mr_access = access}) {}
};

/// The attributes that bind a window to a part of the endpoint's buffer.
inline ibv_mw_bind_info part_of(const Endpoint& at, std::size_t offset, std::uint64_t length,
                                unsigned access) {
  return {at.mr.get(), reinterpret_cast<std::uint64_t>(at.buffer.data()) + offset, length, access};
}

inline int bind_type_1(const Endpoint& at, ibv_mw* window, const ibv_mw_bind_info& info,
                       std::uint64_t id = 7) {
  ibv_mw_bind bind{};
  bind.wr_id = id;
  bind.send_flags = IBV_SEND_SIGNALED;
  bind.bind_info = info;
  return ibv_bind_mw(at.qp.get(), window, &bind);
}

inline int bind_type_2(Endpoint& at, ibv_mw* window, std::uint32_t rkey,
                       const ibv_mw_bind_info& info, std::uint64_t id = 7) {
  ibv_send_wr request{};
  request.wr_id = id;
  request.opcode = IBV_WR_BIND_MW;
  request.send_flags = IBV_SEND_SIGNALED;
  request.bind_mw.mw = window;
  request.bind_mw.rkey = rkey;
  request.bind_mw.bind_info = info;
  return at.post(request, {});
}

inline int invalidate(Endpoint& at, std::uint32_t rkey, std::uint64_t id = 8) {
  ibv_send_wr request{};
  request.wr_id = id;
  request.opcode = IBV_WR_LOCAL_INV;
  request.send_flags = IBV_SEND_SIGNALED;
  request.invalidate_rkey = rkey;
  return at.post(request, {});
}

inline int send_with_invalidate(Endpoint& at, std::uint32_t rkey, std::uint64_t id = 9) {
  ibv_send_wr request{};
  request.wr_id = id;
  request.opcode = IBV_WR_SEND_WITH_INV;
  request.send_flags = IBV_SEND_SIGNALED;
  request.invalidate_rkey = rkey;
  return at.post(request, {at.element(0, 4)});
}

/// Makes a type 2 window of `at` and binds it. The `rkey` of the returned object is the bound key.
inline Mw bound_type_2(Endpoint& at, const ibv_mw_bind_info& info) {
  Mw window = alloc_window(at, IBV_MW_TYPE_2);
  const std::uint32_t rkey = ibv_inc_rkey(window->rkey);
  EXPECT_EQ(bind_type_2(at, window.get(), rkey, info), 0);
  expect_completion(at, 7);
  window->rkey = rkey;
  return window;
}

/// Writes or reads `bytes` bytes at `offset` of b's buffer by the key `rkey`. Returns the status
/// that `a` gets.
inline ibv_wc_status reach(Pair& pair, ibv_wr_opcode opcode, std::uint32_t rkey, std::size_t offset,
                           std::uint32_t bytes = 4) {
  Address target;
  target.buffer = reinterpret_cast<std::uint64_t>(pair.b.buffer.data());
  target.rkey = rkey;
  EXPECT_EQ(pair.a.rdma(opcode, 1, 0, bytes, target, offset), 0);
  const auto completion = pair.a.wait();
  return completion ? completion->status : IBV_WC_GENERAL_ERR;
}

}  // namespace hbmwire::test
