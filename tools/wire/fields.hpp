// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <type_traits>

#include "hbmwire/low_level/connection.hpp"
#include "hbmwire/nic.hpp"

#include "tools/wire/codec.hpp"

// Fields that several messages share. `codec` is a Writer or a Reader; each function works with
// both.
namespace hbmwire::tools::wire {

/// A message to write, or one to read.
template <class M, class Message>
concept Of = std::same_as<std::remove_const_t<M>, Message>;

inline constexpr std::uint32_t kMax24Bits = 0xffffffU;

void fields(auto& codec, Of<ConnectionAddress> auto& address) {
  codec.bytes(address.gid);
  codec.number(address.queue_pair, 0U, kMax24Bits);
  codec.number(address.packet_sequence, 0U, kMax24Bits);
  codec.number(address.mtu_bytes);
  codec.number(address.lid);
  codec.flag(address.ethernet);
  codec.number(address.max_message_bytes, std::uint64_t{1});
  codec.number(address.incarnation, std::uint64_t{1});
}

void fields(auto& codec, Of<RemoteMemory> auto& memory) {
  codec.number(memory.address);
  codec.number(memory.length_bytes);
  codec.number(memory.remote_key);
  codec.require(memory.length_bytes <= ~std::uint64_t{0} - memory.address);
}

}  // namespace hbmwire::tools::wire
