// SPDX-License-Identifier: MIT
#pragma once

#include <ostream>

#include "emulation/tests/conformance/side.hpp"

namespace hbmwire::conformance {

enum class Transport { rc, uc, ud, xrc };

inline constexpr Transport kTransports[] = {Transport::rc, Transport::uc, Transport::ud,
                                            Transport::xrc};

const char* name_of(Transport transport);
std::ostream& operator<<(std::ostream& out, Transport transport);

/// GoogleTest's name of a case whose parameter is a transport.
std::string transport_name(const testing::TestParamInfo<Transport>& info);

ibv_qp_type requester_type(Transport transport);
ibv_qp_type responder_type(Transport transport);

/// The reason why the device cannot be tested with this transport; empty if it can.
std::string lacks(const Nic& nic, Transport transport);

struct LinkOptions {
  SideOptions a{};
  SideOptions b{};
  Timing timing{};
  bool connected = true;
};

/// A requester `a` and a responder `b`, connected on one port.
class Link {
 public:
  Link(const Nic& nic, Transport the_transport, const LinkOptions& options = {});

  /// A request of `a` to `b`.
  [[nodiscard]] ibv_send_wr request(ibv_wr_opcode opcode, std::uint64_t id,
                                    std::size_t remote_offset = 0) const {
    return a.request(opcode, id, to_b, remote_offset);
  }

  /// The offset of a message's payload in a receive buffer.
  [[nodiscard]] std::uint32_t headroom() const {
    return transport == Transport::ud ? kGrhBytes : 0;
  }

  /// Posts a receive of `b` with room for `length` bytes of payload, which will begin at `offset` +
  /// headroom().
  int receive(std::uint64_t id, std::size_t offset, std::uint32_t length) {
    return b.receive(id, offset, length + headroom());
  }

  const Transport transport;
  Side a;
  Side b;
  Address to_b;
};

/// For cases that apply to every transport, or to some.
class EachTransport : public ConformanceOf<Transport> {
 protected:
  [[nodiscard]] std::string lacking() const { return lacks(nic, GetParam()); }
};

}  // namespace hbmwire::conformance
