// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "emulation/nic/transport/request.hpp"

namespace hbmwire::emulation::nic {

inline constexpr std::size_t kDatagramHeaderBytes = 40;
using DatagramHeader = std::array<std::uint8_t, kDatagramHeaderBytes>;

/// Makes the header that a UD receive begins with (IBTA vol. 1, 11.4.1.2; annex A17 for RoCE v2),
/// for a message of `payload_bytes`. It is a GRH, an IPv6 header, or 20 unused bytes and an IPv4
/// header. It is all zeros if InfiniBand delivered the message without a GRH.
DatagramHeader make_datagram_header(const AddressVector& address, std::uint64_t payload_bytes);

}  // namespace hbmwire::emulation::nic
