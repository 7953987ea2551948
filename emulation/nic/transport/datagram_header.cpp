// SPDX-License-Identifier: MIT
#include "emulation/nic/transport/datagram_header.hpp"

#include <algorithm>

namespace hbmwire::emulation::nic {
namespace {

constexpr std::size_t kIpv4Start = 20;
constexpr std::uint8_t kUdp = 17;
constexpr std::uint8_t kInfiniBand = 0x1b;  // the "next header" in a GRH
// Bytes after the header: BTH 12, DETH 8, ICRC 4; with IP a UDP header of 8 before them.
constexpr std::uint64_t kTransportBytes = 24;
constexpr std::uint64_t kUdpBytes = 8;

void put16(std::uint8_t* at, std::uint64_t value) {
  at[0] = static_cast<std::uint8_t>(value >> 8U);
  at[1] = static_cast<std::uint8_t>(value);
}

std::uint16_t internet_checksum(const std::uint8_t* bytes, std::size_t length) {
  std::uint32_t sum = 0;
  for (std::size_t at = 0; at < length; at += 2)
    sum += static_cast<std::uint32_t>(bytes[at]) << 8U | bytes[at + 1];
  while (sum > 0xffffU) sum = (sum & 0xffffU) + (sum >> 16U);
  return static_cast<std::uint16_t>(~sum);
}

void put_ipv4(DatagramHeader& header, const AddressVector& address, std::uint64_t payload_bytes) {
  std::uint8_t* ip = header.data() + kIpv4Start;
  ip[0] = 0x45;  // version 4, a header of 5 words
  ip[1] = address.traffic_class;
  put16(ip + 2, 20 + kUdpBytes + kTransportBytes + payload_bytes);
  ip[6] = 0x40;  // don't fragment
  ip[8] = address.hop_limit;
  ip[9] = kUdp;
  std::copy_n(address.sgid.begin() + 12, 4, ip + 12);
  std::copy_n(address.to.gid.begin() + 12, 4, ip + 16);
  put16(ip + 10, internet_checksum(ip, 20));  // last: it covers the whole header
}

/// A GRH begins as an IPv6 header does: with the version 6.
void put_grh(DatagramHeader& header, const AddressVector& address, std::uint64_t payload_bytes) {
  const std::uint32_t first = 6U << 28U | static_cast<std::uint32_t>(address.traffic_class) << 20U |
                              (address.flow_label & 0xfffffU);
  put16(header.data(), first >> 16U);
  put16(header.data() + 2, first);
  put16(header.data() + 4, kTransportBytes + (address.routable ? kUdpBytes : 0) + payload_bytes);
  header[6] = address.routable ? kUdp : kInfiniBand;
  header[7] = address.hop_limit;
  std::copy(address.sgid.begin(), address.sgid.end(), header.begin() + 8);
  std::copy(address.to.gid.begin(), address.to.gid.end(), header.begin() + 24);
}

}  // namespace

std::uint8_t service_level_of(const AddressVector& address) {
  if (!address.routable) return address.service_level;
  return is_ipv4_mapped(address.to.gid) ? 0xa : 0x9;
}

DatagramHeader make_datagram_header(const AddressVector& address, std::uint64_t payload_bytes) {
  DatagramHeader header{};
  if (!address.to.global) return header;
  if (address.routable && is_ipv4_mapped(address.to.gid)) {
    put_ipv4(header, address, payload_bytes);
  } else {
    put_grh(header, address, payload_bytes);
  }
  return header;
}

}  // namespace hbmwire::emulation::nic
