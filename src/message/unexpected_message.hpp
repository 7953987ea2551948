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

  // Only where it is handed out.
  EndpointState* endpoint = nullptr;
  std::shared_ptr<WorkerState> keeps_worker;  // while an IncomingMessage holds it
};

}  // namespace hbmwire::detail
