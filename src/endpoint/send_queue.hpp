// SPDX-License-Identifier: MIT
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "hbmwire/endpoint.hpp"

#include "endpoint/request_state.hpp"
#include "endpoint/transfer_state.hpp"
#include "transport/verbs/lane_datapath.hpp"

namespace hbmwire::detail {

/// The data lane's send queue as its endpoint keeps it: the requests that are posted and not over,
/// in a ring; and what a usual put or get, which goes at once, is compared with and posted by.
/// Requests are counted, and the counts are places in the ring, too. In its first cache line lies
/// what each put looks at.
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): what is touched together lies together.
struct alignas(64) SendQueue {
  SendQueue(WorkerState& worker_of, EndpointState& endpoint, std::uint32_t depth_of)
      : worker(&worker_of),
        ring_mask(std::bit_ceil(depth_of) - 1),
        depth(depth_of),
        ring(std::bit_ceil(depth_of)) {
    slots = ring.data();
    for (Posted& posted : ring) posted.endpoint = &endpoint;
    direct_request.sg_list = &direct_element;
    direct_request.num_sge = 1;
  }

  // --- the ring

  /// Requests that are posted and not over.
  [[nodiscard]] std::uint32_t outstanding() const noexcept { return head - over; }

  /// Requests that it takes now.
  [[nodiscard]] std::uint32_t room() const noexcept { return depth - outstanding(); }

  /// Whether the NIC has given back, in their order, all that was posted before `place`.
  [[nodiscard]] bool gave_back_before(std::uint32_t place) const noexcept {
    return static_cast<std::int32_t>(over - place) >= 0;
  }

  /// Calls `look` with each operation of which requests are posted and not over, in their order.
  template <class Look>
  void for_each_posted(const Look& look) const {
    for (std::uint32_t i = over; i != head; i += slots[i & ring_mask].count())
      look(slots[i & ring_mask]);
  }

  /// The place in the ring of what is posted next.
  Posted& next_place(TransferState* transfer, std::uint32_t count) noexcept {
    Posted& place = slots[head & ring_mask];
    place.transfer = transfer;
    place.requests = count;
    return place;
  }

  // --- usual puts and gets (direct_datapath.hpp)

  /// Whether it goes at once.
  template <ibv_wr_opcode kOpcode, Access kNeeded>
  [[nodiscard]] bool is_direct(const Slice& here, const RemoteSlice& there) const noexcept;

  /// What is direct goes this way. Null: ibv_post_send(3) refused it, by `refusal`.
  template <ibv_wr_opcode kOpcode>
  TransferState* send_short(const Slice& here, const RemoteSlice& there) noexcept;
  template <ibv_wr_opcode kOpcode>
  TransferState* send_long(const Slice& here, const RemoteSlice& there) noexcept;

  template <ibv_wr_opcode kOpcode, bool kLong>
  void fill_direct(const Slice& here, const RemoteSlice& there) noexcept;
  template <bool kLong>
  TransferState& note_direct(const Slice& here, bool inlined) noexcept;
  void take_back_direct(TransferState& transfer) noexcept;
  void finish_direct(TransferState& transfer) noexcept;

  /// From now on EndpointState::finds_direct() is to be asked.
  void ask_before_direct() noexcept { direct_until = head; }

  // --- requests without completions (quiet_datapath.hpp)

  /// How many of the puts and gets behind one that is signaled may be quiet.
  [[nodiscard]] std::uint32_t next_quiet_run() noexcept;

  /// A put or get was posted: where the next one is that is signaled, if this was one.
  void count_quiet() noexcept;

  /// How many there are at the end of which nothing tells.
  [[nodiscard]] std::uint32_t quiet_tail() const noexcept { return head - told_until; }

  /// Whether what EndpointState::speak_up() has asked for is not told yet.
  [[nodiscard]] bool is_asking() const noexcept {
    return static_cast<std::int32_t>(over - asked_until) < 0;
  }

  /// What is quiet before a request whose completion has come is over: all of it, or what was
  /// posted before `until`.
  void end_quiet(const TransferState* until) noexcept;

  WorkerState* worker;
  ibv_qp* queue = nullptr;
  Posted* slots = nullptr;                         // of `ring`
  std::uint64_t usual_reach = ~std::uint64_t{0};   // Reach of a region with which all was well
  std::uint64_t usual_remote = ~std::uint64_t{0};  // reach_of() such a remote one
  std::uint64_t max_message = 0;                   // what is longer does not go at once
  std::uint32_t head = 0;          // so many requests were posted: the next one's place in the ring
  std::uint32_t over = 0;          // so many of them are over, in their order
  std::uint32_t direct_until = 0;  // up to this `head` puts and gets go without finds_direct()
  std::uint32_t loud_at = 0;       // at this `head` a put or get is signaled, before it is quiet

  // In two more what it is posted by. That of the last one is kept: a store is dear behind the many
  // of a CPU that moves the bytes itself.
  alignas(64) ibv_sge direct_element{};
  Way usual_way;  // of a put or get between the usual two
  std::uint32_t inline_bytes = 0;
  std::uint32_t ring_mask;
  std::uint32_t depth;                     // so many requests it takes
  TransferState* first_waiting = nullptr;  // of those for which there is no room
  std::uint32_t told_until = 0;            // `head` behind the last request that is signaled
  std::uint8_t loud_left = 0;              // so many are signaled before any is quiet
  bool in_quiet_list = false;              // WorkerState::quiet_list
  std::uint32_t quiet_head = 0;            // `head` when that was looked at
  EndpointState* next_quiet = nullptr;
  std::uint32_t asked_until = 0;  // `head` behind the last request that speak_up() posted
  std::uint32_t busiest = 0;  // so many were under way at most, since nobody last waited in vain
  alignas(64) ibv_send_wr direct_request{};
  int refusal = 0;  // errno of ibv_post_send(3)
  std::vector<Posted> ring;
};

}  // namespace hbmwire::detail
