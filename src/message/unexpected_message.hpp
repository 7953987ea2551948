// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>

#include "wire/message_header.hpp"

namespace hbmwire::detail {

struct ReceiveBuffer;
struct UnexpectedBlock;

/// A message that no receive has matched yet, or whose bytes are on their way to a device.
struct UnexpectedMessage {
  UnexpectedMessage* next = nullptr;
  wire::MessageHeader header;
  std::byte* bytes = nullptr;        // `header.length` of them, where it carries some
  std::uint32_t mover_key = 0;       // by which LoopbackMover reads them
  std::uint32_t units = 0;           // of `block`
  ReceiveBuffer* buffer = nullptr;   // which holds it; null: `block` does
  UnexpectedBlock* block = nullptr;  // of UnexpectedPool
};

}  // namespace hbmwire::detail
