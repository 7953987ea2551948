// SPDX-License-Identifier: MIT
#include "wire/address_codec.hpp"

namespace hbmwire::wire {

void put(Writer& out, const ConnectionAddress& address) {
  out.bytes(address.gid);
  out.integer(address.queue_pair);
  out.integer(address.packet_sequence);
  out.integer(address.mtu_bytes);
  out.integer(address.lid);
  out.integer(static_cast<std::uint8_t>(address.ethernet ? 1 : 0));
  out.integer(address.max_message_bytes);
  out.integer(address.incarnation);
}

ConnectionAddress get_connection_address(Reader& in) {
  constexpr std::uint32_t kMax24 = 0xffffffU;
  ConnectionAddress address;
  address.gid = in.bytes<16>();
  address.queue_pair = in.integer<std::uint32_t>();
  address.packet_sequence = in.integer<std::uint32_t>();
  address.mtu_bytes = in.integer<std::uint32_t>();
  address.lid = in.integer<std::uint16_t>();
  const auto ethernet = in.integer<std::uint8_t>();
  address.ethernet = ethernet == 1;
  address.max_message_bytes = in.integer<std::uint64_t>();
  address.incarnation = in.integer<std::uint64_t>();
  const bool sane = ethernet <= 1 && address.queue_pair <= kMax24 &&
                    address.packet_sequence <= kMax24 && address.max_message_bytes != 0 &&
                    address.incarnation != 0;
  if (!sane) in.fail();
  return address;
}

}  // namespace hbmwire::wire
