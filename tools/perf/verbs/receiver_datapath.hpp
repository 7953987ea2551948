// SPDX-License-Identifier: MIT
#pragma once

#include <arpa/inet.h>

#include <array>
#include <cstdint>
#include <vector>

#include "tools/perf/verbs/sender_datapath.hpp"

namespace hbmwire::tools::perf {

/// The parameters of receiving in a pass.
struct Receiving {
  std::uint32_t depth = 1;          ///< receives posted on each lane
  std::uint32_t grain = 1;          ///< receives that one call posts again; 0: refill() posts them
  std::uint32_t credit_grain = 0;   ///< arrivals that one credit reports; 0: the sender needs no
                                    ///< credits
  std::uint32_t message_bytes = 0;  ///< of each arrival, including its header
  const std::uint64_t* offsets = nullptr;  ///< of the slots
  std::size_t slots = 1;
  std::uint8_t pass = 0;  ///< sent with credits, because late credits of an earlier pass must be
                          ///< ignored
  /// For each lane, the message that landed in each slot; null if not wanted.
  std::vector<std::vector<std::uint64_t>>* landed = nullptr;
};

/// Receives messages on all lanes, posts receives again, and sends credits: they tell the sender
/// how many messages it may send. Credits carry no data, so they need no copy from device memory.
class Receiver {
 public:
  static constexpr std::uint64_t kNothing = ~std::uint64_t{0};  ///< in Receiving::landed

  Receiver(Lanes& lanes, const Receiving& receiving) : lanes_(lanes), with_(receiving) {}

  // The functions that return bool, but for step(), return false after a failure: fault().

  /// Posts `depth` receives on each lane, and restarts the count of arrivals at 0.
  bool start() noexcept {
    for (Lane& lane : lanes_.lanes) {
      lane.arrived = lane.returned = 0;
      lane.owes_credit = false;
      if (!refill(lane)) return false;
    }
    return true;
  }

  /// Posts receives on a lane, one by one, until `depth` of them wait.
  bool refill(Lane& lane) noexcept {
    while (lane.receives_posted < lane.receives_taken + with_.depth) {
      if (!post(lane, 1)) return false;
    }
    return true;
  }

  /// Polls once. Returns true if something had arrived.
  bool step() noexcept {
    std::array<ibv_wc, kPollBatch> done;  // NOLINT: filled by the call
    const int count = ibv_poll_cq(lanes_.receive_cq.get(), kPollBatch, done.data());
    if (count == 0) return false;
    fault_.poll_failed = count < 0;
    for (int i = 0; i < count; ++i) {
      if (!take(done[static_cast<std::size_t>(i)])) return false;
    }
    return count > 0;
  }

  /// Whether a credit waits for room in a send queue, which completions make.
  [[nodiscard]] bool owes() const noexcept { return owes_; }

  /// Sends the credits that waited, as far as there is room now.
  bool pay() noexcept {
    owes_ = false;
    for (Lane& lane : lanes_.lanes) {
      if (lane.owes_credit && !give_credit(lane)) return false;
    }
    return true;
  }

  [[nodiscard]] std::uint64_t arrived() const noexcept { return arrived_; }

  /// Arrivals with a size other than that of the messages.
  [[nodiscard]] std::uint64_t wrong_sizes() const noexcept { return wrong_sizes_; }

  [[nodiscard]] const Fault& fault() const noexcept { return fault_; }

 private:
  bool take(const ibv_wc& one) noexcept {
    if (one.status != IBV_WC_SUCCESS) [[unlikely]] {
      fault_.status = one.status;
      return false;
    }
    Lane& lane = lanes_.lanes[one.wr_id & kLaneMask];
    ++lane.receives_taken;
    // A SEND with an immediate value is a credit. A WRITE with one has another opcode.
    if ((one.wc_flags & IBV_WC_WITH_IMM) != 0 && one.opcode == IBV_WC_RECV) {
      take_credit(lane, ntohl(one.imm_data));
    } else {
      note(lane, one);
    }
    // Receives are posted again, and credits given, for several messages at a time.
    const std::uint64_t missing = lane.receives_taken + with_.depth - lane.receives_posted;
    if (with_.grain == 0 || missing < with_.grain) return true;
    if (!post(lane, with_.grain)) return false;
    const bool due = with_.credit_grain != 0 && lane.arrived - lane.returned >= with_.credit_grain;
    return !due || give_credit(lane);
  }

  // Eight bits of a credit are the number of the pass. The others are the low bits of the number of
  // messages received in it; the sender is never ahead by more than they can count.
  void take_credit(Lane& lane, std::uint32_t credit) const noexcept {
    if (credit >> kCountBits != with_.pass) return;
    const auto known = static_cast<std::uint32_t>(lane.credited - lane.credit_base);
    const std::uint32_t more = (credit - known) & kCountMask;
    if (more <= kCountMask / 2) lane.credited += more;  // else the credit is an older one
  }

  /// Tells the sender the number of arrivals; owes it if the send queue has no room.
  bool give_credit(Lane& lane) noexcept {
    lane.owes_credit = lane.credits_posted - lane.credits_done >= kCreditRoom;
    if (lane.owes_credit) {
      owes_ = true;  // the next credit includes this one
      return true;
    }
    ibv_send_wr credit{};
    credit.opcode = IBV_WR_SEND_WITH_IMM;
    credit.imm_data = htonl(std::uint32_t{with_.pass} << kCountBits |
                            (static_cast<std::uint32_t>(lane.arrived) & kCountMask));
    credit.wr.ud.ah = lane.path.get();
    credit.wr.ud.remote_qpn = lane.remote_queue;
    credit.wr.ud.remote_qkey = lane.queue_key;
    ++lane.credits_posted;
    lane.returned = lane.arrived;
    credit.wr_id = kCreditBit | lane.credits_posted << kLaneBits | lane.number;
    // The completion of one credit in eight frees the entries of all before it.
    if (lane.credits_posted % (kCreditRoom / 4) == 0) credit.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* bad = nullptr;
    fault_.post_errno = ibv_post_send(lane.qp.get(), &credit, &bad);
    return fault_.post_errno == 0;
  }

  /// Counts a message, and notes which one landed in the slot.
  void note(Lane& lane, const ibv_wc& one) noexcept {
    if (with_.landed != nullptr) {
      const std::size_t slot = one.wr_id >> kLaneBits;
      (*with_.landed)[one.wr_id & kLaneMask][slot] = lane.arrived;
    }
    ++lane.arrived;
    ++arrived_;
    if (one.byte_len != with_.message_bytes) ++wrong_sizes_;
  }

  /// Posts the first `count` receives of the lane's list. All of them are chained permanently, so
  /// the chain is cut after the last of these during the call.
  bool post(Lane& lane, std::uint32_t count) noexcept {
    for (std::uint32_t i = 0; i < count; ++i) {
      lane.receive_elements[i].addr = lane.receive_base + with_.offsets[lane.next_receive_slot];
      lane.receives[i].wr_id =
          (lane.receives[i].wr_id & kLaneMask) | std::uint64_t{lane.next_receive_slot} << kLaneBits;
      if (++lane.next_receive_slot == with_.slots) lane.next_receive_slot = 0;
    }
    ibv_recv_wr& last = lane.receives[count - 1];
    ibv_recv_wr* const next = last.next;
    last.next = nullptr;
    ibv_recv_wr* bad = nullptr;
    fault_.post_errno = ibv_post_recv(lane.qp.get(), lane.receives.data(), &bad);
    last.next = next;
    lane.receives_posted += count;
    return fault_.post_errno == 0;
  }

  static constexpr unsigned kCountBits = 24;
  static constexpr std::uint32_t kCountMask = (1U << kCountBits) - 1;

  Lanes& lanes_;
  const Receiving with_;  // the parameters of the pass
  std::uint64_t arrived_ = 0;
  std::uint64_t wrong_sizes_ = 0;
  bool owes_ = false;
  Fault fault_;
};

}  // namespace hbmwire::tools::perf
