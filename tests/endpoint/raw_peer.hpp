// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hbmwire/fd.hpp"

#include "ends.hpp"
#include "transport/verbs/lane.hpp"
#include "wire/control_messages.hpp"
#include "wire/endpoint_offer.hpp"
#include "wire/message_header.hpp"

namespace hbmwire::test {

/// A peer that completes the handshake, and then has only two queue pairs. The test decides what it
/// posts there, and how it handles received messages.
class RawPeer {
 public:
  static constexpr std::uint32_t kDepth = 256;
  static constexpr std::uint64_t kPlace = 16384;  // bytes for each message

  /// Connects to a listener of `serving`, and drives that meanwhile. `alter_offer` changes its
  /// offer.
  RawPeer(const Context& context, Worker& serving, std::uint16_t port,
          const std::function<void(wire::EndpointOffer&)>& alter_offer = {});
  RawPeer(const RawPeer&) = delete;
  RawPeer& operator=(const RawPeer&) = delete;

  /// Sends one message on the data lane: a header with the payload after it, or any bytes.
  void say(const wire::MessageHeader& header, std::span<const std::byte> payload = {});
  void say_bytes(std::span<const std::byte> bytes, ibv_wr_opcode opcode = IBV_WR_SEND);

  /// Posts a WRITE with immediate without bytes.
  void say_immediate(std::uint32_t value);

  /// Posts a WRITE, READ or atomic of `length` bytes at `address` of the other end's memory.
  void reach(ibv_wr_opcode opcode, std::uint64_t address, std::uint32_t remote_key,
             std::uint32_t length);

  void say_control(const wire::ControlMessage& message);

  /// Handles completions. Answers a Fence unless that is switched off.
  void progress();

  /// Waits for a message of this kind from the other end, and takes it out of `heard`. Drives
  /// `serving` meanwhile.
  wire::MessageHeader expect(wire::MessageHeader::Kind kind);

  /// Whether the queue is in ERROR or destroyed, so nothing can be posted.
  [[nodiscard]] bool broken() const noexcept { return broken_; }

  [[nodiscard]] ibv_wc_status last_failure() const noexcept { return last_failure_; }

  Memory memory;  // kPlace * kDepth bytes, open to all; messages are sent from here
  bool answers_fences = true;
  bool takes_messages = true;             ///< posts a receive again for each that was used
  std::deque<wire::MessageHeader> heard;  ///< messages of the other end, in their order
  wire::EndpointOffer theirs;             ///< the other end's offer

 private:
  void shake_hands(std::uint16_t port,
                   const std::function<void(wire::EndpointOffer&)>& alter_offer);
  void post(transport::VerbsLane& lane, ibv_send_wr request, std::uint64_t at,
            std::uint32_t length);
  void receive(transport::VerbsLane& lane, std::uint64_t place);
  void take(const ibv_wc& completion);
  void take_control(std::span<const std::byte> bytes);
  [[nodiscard]] std::byte* bytes_at(std::uint64_t at) const;
  [[nodiscard]] std::uint64_t next_place();

  Worker& serving_;
  Nic nic_;
  Memory inbox_;
  std::unique_ptr<transport::VerbsCompletionQueue> completions_;
  std::unique_ptr<transport::VerbsLane> data_;
  std::unique_ptr<transport::VerbsLane> control_;
  Fd socket_;
  std::uint32_t posted_ = 0;  // requests that have not completed yet
  std::uint64_t places_ = 0;  // number of places used so far, each for one message
  bool broken_ = false;
  ibv_wc_status last_failure_ = IBV_WC_SUCCESS;
};

}  // namespace hbmwire::test
