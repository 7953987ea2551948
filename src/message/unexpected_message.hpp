// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "wire/message_header.hpp"

namespace hbmwire::detail {

struct EndpointState;
struct ReceiveBuffer;
struct UnexpectedBlock;
struct WorkerState;

/// A stored message: no receive has matched it yet, or an IncomingMessage holds it, or its bytes
/// are being copied to a device.
struct UnexpectedMessage {
  UnexpectedMessage* next = nullptr;
  wire::MessageHeader header;
  std::byte* bytes = nullptr;        // `header.length` bytes, if the message carries them
  std::uint32_t mover_key = 0;       // the key by which LoopbackMover reads them
  std::uint32_t units = 0;           // units of `block`; 0: `buffer` holds it
  ReceiveBuffer* buffer = nullptr;   // the receive that holds it; null: `block` does
  UnexpectedBlock* block = nullptr;  // a block of UnexpectedPool
  bool by_ring = false;              // it came by shared memory
  bool is_beyond = false;            // `block` was allocated beyond the pool's limit

  /// Whether it still holds the place that its sender's credit stands for. A message in a receive
  /// does. So does one beyond the limit: its sender gets the credit back only when the message
  /// goes, which bounds the memory beyond the limit.
  [[nodiscard]] bool has_place() const noexcept { return units == 0 || is_beyond; }

  // Set only if the message is handed out.
  EndpointState* endpoint = nullptr;
  std::shared_ptr<WorkerState> keeps_worker;  // while an IncomingMessage holds it
};

}  // namespace hbmwire::detail
