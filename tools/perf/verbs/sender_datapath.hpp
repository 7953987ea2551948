// SPDX-License-Identifier: MIT
#pragma once

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "tools/perf/layout.hpp"
#include "tools/perf/statistics.hpp"
#include "tools/perf/ticks.hpp"
#include "tools/perf/verbs/lanes.hpp"

namespace hbmwire::tools::perf {

/// The most completions taken by one call, as in perftest.
inline constexpr int kPollBatch = 16;

/// A failure between two calls of the library, from which explain() makes a message.
struct Fault {
  int post_errno = 0;
  bool poll_failed = false;
  ibv_wc_status status = IBV_WC_SUCCESS;

  explicit operator bool() const noexcept {
    return post_errno != 0 || poll_failed || status != IBV_WC_SUCCESS;
  }
};

/// The parameters of sending in a pass.
struct Sending {
  std::uint32_t depth = 1;       ///< requests in flight on each lane
  std::uint32_t list = 1;        ///< requests posted by one call
  std::uint32_t moderation = 1;  ///< requests per completion
  std::uint32_t window = 0;  ///< messages that may be ahead of the peer's receives; 0: no credits
  const std::uint64_t* offsets = nullptr;  ///< of the slots
  std::size_t slots = 1;
  Marks* posts = nullptr;  ///< receives the times of posts; null: not recorded
  Marks* completions = nullptr;
};

/// The member of the request's union that holds the remote address.
enum class Remote : std::uint8_t { none, rdma, atomic };

/// Posts lists of requests on all lanes, up to the depth, and takes their completions. The work
/// request is that of ibv_post_send(), and is reused for all messages: only the parts that change
/// are written.
class Sender {
 public:
  Sender(Lanes& lanes, const Sending& sending) : lanes_(lanes), with_(sending) {}

  /// From here on sends `messages` more on each lane, beginning with the first slot.
  void start(std::uint64_t messages) noexcept {
    for (Lane& lane : lanes_.lanes) {
      lane.limit = lane.posted + messages;
      lane.credited = lane.credit_base = lane.posted;
      lane.next_slot = 0;
      lane.until_signal = with_.moderation;
    }
    goal_ = messages * lanes_.lanes.size();
  }

  /// Handles all lanes once, and polls once. Returns true if something completed.
  template <Remote kRemote>
  bool step() noexcept {
    for (Lane& lane : lanes_.lanes) {
      std::uint64_t room = std::min(room_of(lane), budget_);
      if (room < with_.list) continue;
      if (with_.posts != nullptr) with_.posts->add(posted_, ticks());
      for (; room >= with_.list; room -= with_.list) {
        if (!post<kRemote>(lane)) return false;
      }
    }
    return poll();
  }

  /// Takes at most kPollBatch completions. Returns true if there were some.
  bool poll() noexcept;

  /// The number of messages that may be posted until the next call.
  void set_budget(std::uint64_t messages) noexcept { budget_ = messages; }

  /// Whether everything that was to be posted is complete.
  [[nodiscard]] bool is_done() const noexcept { return completed_ == goal_; }

  /// Stops posting, except for the lists needed to get a last completion.
  void stop() noexcept {
    goal_ = 0;
    for (Lane& lane : lanes_.lanes) {
      // If lists follow the last one that has a completion, one more list must have one for them.
      const bool tail = lane.until_signal != with_.moderation;
      const std::uint64_t before = lane.limit;
      lane.limit = std::min(before, lane.posted + (tail ? with_.list : 0));
      goal_ += lane.limit - lane.posted;
    }
    goal_ += posted_;
  }

  /// Gives back credits that were lost together with their messages, which happens only on
  /// unreliable queue pairs.
  void forgive() noexcept {
    for (Lane& lane : lanes_.lanes) lane.credited = lane.posted;
  }

  [[nodiscard]] std::uint64_t posted() const noexcept { return posted_; }

  [[nodiscard]] std::uint64_t completed() const noexcept { return completed_; }

  [[nodiscard]] const Fault& fault() const noexcept { return fault_; }

 private:
  /// The number of messages that may be posted on the lane now.
  [[nodiscard]] std::uint64_t room_of(const Lane& lane) const noexcept {
    std::uint64_t end = std::min(lane.limit, lane.completed + with_.depth);
    if (with_.window != 0) end = std::min(end, lane.credited + with_.window);
    return end > lane.posted ? end - lane.posted : 0;
  }

  template <Remote kRemote>
  bool post(Lane& lane) noexcept {
    if (with_.slots > 1) place<kRemote>(lane);  // a single slot's addresses never change
    lane.posted += with_.list;
    posted_ += with_.list;
    budget_ -= with_.list;
    lane.until_signal -= with_.list;
    ibv_send_wr& last = lane.requests[with_.list - 1];
    if (lane.until_signal == 0 || lane.posted == lane.limit) {
      lane.until_signal = with_.moderation;
      last.send_flags |= IBV_SEND_SIGNALED;
      last.wr_id = (last.wr_id & kLaneMask) | lane.posted << kLaneBits;
    } else {
      last.send_flags &= ~static_cast<unsigned>(IBV_SEND_SIGNALED);
    }
    ibv_send_wr* bad = nullptr;
    fault_.post_errno = ibv_post_send(lane.qp.get(), lane.requests.data(), &bad);
    return fault_.post_errno == 0;
  }

  /// Gives the requests of a list the next slots.
  template <Remote kRemote>
  void place(Lane& lane) noexcept {
    for (std::uint32_t i = 0; i < with_.list; ++i) {
      const std::uint64_t offset = with_.offsets[lane.next_slot];
      if (++lane.next_slot == with_.slots) lane.next_slot = 0;
      lane.elements[i].addr = lane.local_base + offset;
      if constexpr (kRemote == Remote::rdma)
        lane.requests[i].wr.rdma.remote_addr = lane.remote_base + offset;
      if constexpr (kRemote == Remote::atomic)
        lane.requests[i].wr.atomic.remote_addr = lane.remote_base + offset;
    }
  }

  Lanes& lanes_;
  const Sending with_;           // the parameters of the pass
  std::uint64_t posted_ = 0;     // messages posted in this pass
  std::uint64_t completed_ = 0;  // messages completed in this pass
  std::uint64_t goal_ = 0;       // messages to complete in this pass
  std::uint64_t budget_ = ~std::uint64_t{0};
  Fault fault_;
};

inline bool Sender::poll() noexcept {
  std::array<ibv_wc, kPollBatch> done;  // NOLINT: filled by the call
  const int count = ibv_poll_cq(lanes_.send_cq.get(), kPollBatch, done.data());
  if (count == 0) return false;
  fault_.poll_failed = count < 0;
  for (int i = 0; i < count; ++i) {
    const ibv_wc& one = done[static_cast<std::size_t>(i)];
    if (one.status != IBV_WC_SUCCESS) [[unlikely]] {
      fault_.status = one.status;
      return false;
    }
    Lane& lane = lanes_.lanes[one.wr_id & kLaneMask];
    if ((one.wr_id & kCreditBit) != 0) {
      lane.credits_done = (one.wr_id & ~kCreditBit) >> kLaneBits;
      continue;
    }
    const std::uint64_t until = one.wr_id >> kLaneBits;
    completed_ += until - lane.completed;
    lane.completed = until;
  }
  if (with_.completions != nullptr) with_.completions->add(completed_, ticks());
  return count > 0;
}

}  // namespace hbmwire::tools::perf
