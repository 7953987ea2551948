// SPDX-License-Identifier: MIT
#pragma once

#include <span>

#include "emulation/tests/nic/endpoint.hpp"

namespace hbmwire::test {

/// A signaled RDMA request to the beginning of the peer's buffer.
inline ibv_send_wr rdma_request(ibv_wr_opcode opcode, std::uint64_t id, const Address& peer) {
  ibv_send_wr request{};
  request.wr_id = id;
  request.opcode = opcode;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.rdma.remote_addr = peer.buffer;
  request.wr.rdma.rkey = peer.rkey;
  return request;
}

/// Reads a byte that a NIC may write at any time. Sanitizers do not know the NIC's thread.
[[gnu::no_sanitize("thread"), gnu::noinline]] inline unsigned char polled(
    const unsigned char* byte) {
  return *static_cast<const volatile unsigned char*>(byte);
}

/// Writes bytes that a NIC may read at any time, as polled() reads them.
[[gnu::no_sanitize("thread"), gnu::noinline]] inline void overwrite(std::span<unsigned char> bytes,
                                                                    unsigned char value) {
  for (unsigned char& byte : bytes) *static_cast<volatile unsigned char*>(&byte) = value;
}

}  // namespace hbmwire::test
