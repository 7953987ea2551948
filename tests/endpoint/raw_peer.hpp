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

/// A peer that shakes hands as it should, and from then on is nothing but two queue pairs: what is
/// posted there, and how arriving bytes are answered, is the test's matter.
class RawPeer {
 public:
  static constexpr std::uint32_t kDepth = 256;
  static constexpr std::uint64_t kPlace = 16384;  // bytes of each message's place

  /// Connects to a listener of `serving`'s, which it drives meanwhile. `change`: its offer.
  RawPeer(const Context& context, Worker& serving, std::uint16_t port,
          const std::function<void(wire::EndpointOffer&)>& change = {});
  RawPeer(const RawPeer&) = delete;
  RawPeer& operator=(const RawPeer&) = delete;

  /// One SEND on the data lane: a header and what follows it, or anything.
  void say(const wire::MessageHeader& header, std::span<const std::byte> payload = {});
  void say_bytes(std::span<const std::byte> bytes, ibv_wr_opcode opcode = IBV_WR_SEND);

  /// A WRITE with immediate of nothing.
  void say_immediate(std::uint32_t value);

  /// A WRITE into, or a READ from, whatever lies there.
  void reach(ibv_wr_opcode opcode, std::uint64_t address, std::uint32_t remote_key,
             std::uint32_t length);

  void say_control(const wire::ControlMessage& message);

  /// Takes what completed. A Fence is answered, unless that is switched off.
  void progress();

  /// Waits for what the other end said last, of that kind; `serving` is driven.
  wire::MessageHeader expect(wire::MessageHeader::Kind kind);

  /// Later requests go to a queue that is in ERROR, or has gone.
  [[nodiscard]] bool broken() const noexcept { return broken_; }

  [[nodiscard]] ibv_wc_status last_failure() const noexcept { return last_failure_; }

  Memory memory;  // kPlace * kDepth bytes, open to everybody, from which it says things
  bool answers_fences = true;
  bool takes_messages = true;  ///< posts a receive for each that was used up
  std::deque<wire::MessageHeader> heard;
  wire::EndpointOffer theirs;

 private:
  void shake_hands(std::uint16_t port, const std::function<void(wire::EndpointOffer&)>& change);
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
  std::uint32_t posted_ = 0;  // and not completed
  std::uint64_t places_ = 0;  // that were used, ever
  bool broken_ = false;
  ibv_wc_status last_failure_ = IBV_WC_SUCCESS;
};

}  // namespace hbmwire::test
