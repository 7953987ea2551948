// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "endpoint/transfer_state.hpp"
#include "message/chain.hpp"
#include "message/credits.hpp"
#include "message/matching.hpp"
#include "message/ring.hpp"
#include "message/slots.hpp"
#include "registration/memory_key_state.hpp"
#include "verbs/handles.hpp"
#include "wire/message_header.hpp"

namespace hbmwire::detail {

/// What an endpoint knows of messages and immediates. All of it is made when it is connected.
struct Mailbox {
  Mailbox(std::uint32_t receive_depth, std::uint32_t answers_in);

  // No NIC has the application's pages: the kernel copies their bytes (base/guarded_copy.hpp).
  bool guarded = false;
  bool pressing = false;  // answers, urgent ones or credits wait to be posted
  std::uint32_t read_count = 0;
  std::uint32_t waiting = 0;       // buffers whose message waits
  std::uint32_t most_waiting = 0;  // before messages are copied into the pool

  /// Buffers whose messages were read: posted again together, which costs less than one by one, and
  /// nothing between a message and what answers it. There are so many more than credits ask for.
  static constexpr std::uint32_t kMostRead = 8;
  std::array<MessageBuffer*, kMostRead> read{};

  Credits credits;
  Matching matching;

  Chain<TransferState> urgent;  // READs and WRITEs of rendezvous, which need no credit
  Ring<wire::MessageHeader> answers;
  Slots sent;      // messages whose receiver has something to say
  Slots clearing;  // receives whose sender writes
  std::vector<std::unique_ptr<MemoryKeyState>> keys;  // made for those, by their place

  std::byte* headers = nullptr;  // kHeaderPlace bytes for each place of EndpointState::ring
  std::uint32_t headers_key = 0;
  verbs::Mr for_mover;            // all of the buffers, as LoopbackMover reads them
  bool copied_to_device = false;  // to be warned about
  bool warned = false;

  static constexpr std::uint64_t kHeaderPlace = 128;
  /// Bytes of a message that go behind its header there.
  static constexpr std::uint64_t kBesideHeader = kHeaderPlace - wire::kMessageHeaderBytes;

  /// Whether something of a message is under way that only the peer can end.
  [[nodiscard]] bool under_way() const noexcept {
    return pressing || !urgent.empty() || !sent.empty() || !clearing.empty();
  }
};

}  // namespace hbmwire::detail
