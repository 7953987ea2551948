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

/// A message that no receive has matched yet, that is handed out, or whose bytes are on their way
/// to a device.
struct UnexpectedMessage {
  UnexpectedMessage* next = nullptr;
  wire::MessageHeader header;
  std::byte* bytes = nullptr;        // `header.length` of them, where it carries some
  std::uint32_t mover_key = 0;       // by which LoopbackMover reads them
  std::uint32_t units = 0;           // of `block`
  ReceiveBuffer* buffer = nullptr;   // which holds it; null: `block` does
  UnexpectedBlock* block = nullptr;  // of UnexpectedPool
  bool by_ring = false;              // it came by shared memory
  bool is_beyond = false;            // `block` is more than there should be

  /// Whether it still has the place that its sender's credit stands for, as one in a receive has.
  [[nodiscard]] bool has_place() const noexcept { return units == 0 || is_beyond; }

  // Only where it is handed out.
  EndpointState* endpoint = nullptr;
  std::shared_ptr<WorkerState> keeps_worker;  // while an IncomingMessage holds it
};

}  // namespace hbmwire::detail
