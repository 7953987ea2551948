// SPDX-License-Identifier: MIT
#include "emulation/tests/conformance/link.hpp"

namespace hbmwire::conformance {
namespace {

SideOptions of_type(SideOptions options, ibv_qp_type type) {
  options.type = type;
  return options;
}

}  // namespace

const char* name_of(Transport transport) {
  static constexpr const char* kNames[] = {"RC", "UC", "UD", "XRC"};
  return kNames[static_cast<int>(transport)];
}

std::ostream& operator<<(std::ostream& out, Transport transport) {
  return out << name_of(transport);
}

std::string transport_name(const testing::TestParamInfo<Transport>& info) {
  return name_of(info.param);
}

ibv_qp_type requester_type(Transport transport) {
  static constexpr ibv_qp_type kTypes[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_SEND};
  return kTypes[static_cast<int>(transport)];
}

ibv_qp_type responder_type(Transport transport) {
  return transport == Transport::xrc ? IBV_QPT_XRC_RECV : requester_type(transport);
}

std::string lacks(const Nic& nic, Transport transport) {
  return nic.lacks(requester_type(transport));
}

Link::Link(const Nic& nic, Transport the_transport, const LinkOptions& options)
    : transport(the_transport),
      a(nic, of_type(options.a, requester_type(the_transport))),
      b(nic, of_type(options.b, responder_type(the_transport))),
      to_b(b.address()) {
  if (!options.connected) return;
  b.connect(a.address(), options.timing);
  a.connect(b.address(), options.timing);
}

}  // namespace hbmwire::conformance
