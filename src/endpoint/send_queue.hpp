// SPDX-License-Identifier: MIT
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "hbmwire/endpoint.hpp"

#include "base/forks.hpp"
#include "base/serial.hpp"
#include "endpoint/request_state.hpp"
#include "endpoint/transfer_state.hpp"
#include "transport/verbs/lane_datapath.hpp"

namespace hbmwire::detail {

/// What each put or get of a kind writes anew lies in one cache line, and the rest stays: opcode,
/// element, and but for what may be inlined the flags.
struct alignas(64) DirectRequest : ibv_send_wr {
  DirectRequest() noexcept : ibv_send_wr{} {}
};

/// The data lane's send queue as its endpoint keeps it: what is posted and not over; and what a
/// usual put or get, which goes at once, is compared with and posted by. Such ones lead from each
/// to the one before it, all else is in a ring. Requests are counted, and the counts are their
/// places in the queue, too. In its first cache line lies what each put looks at.
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): what is touched together lies together.
struct alignas(64) SendQueue : TransferHome {
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};  // of no region

  SendQueue(WorkerState& worker_of, EndpointState& endpoint, std::uint32_t depth_of, bool locks)
      : unlocked_in(locks ? ~forks() : forks()),
        depth(depth_of),
        worker(&worker_of),
        ring(std::bit_ceil(depth_of)),
        ring_mask(std::bit_ceil(depth_of) - 1) {
    slots = ring.data();
    for (Posted& posted : ring) posted.endpoint = &endpoint;
    for (DirectRequest* const each : {&long_put, &short_put, &get_request}) {
      each->sg_list = &direct_element;
      each->num_sge = 1;
    }
    long_put.opcode = short_put.opcode = IBV_WR_RDMA_WRITE;
    get_request.opcode = IBV_WR_RDMA_READ;
    be_loud();
  }

  // --- what is posted and not over

  /// Requests.
  [[nodiscard]] std::uint32_t outstanding() const noexcept { return head - over; }

  /// Requests that it takes now.
  [[nodiscard]] std::uint32_t room() const noexcept { return depth - outstanding(); }

  /// Calls `look` with each operation but puts and gets that went at once, in their order.
  template <class Look>
  void for_each_posted(const Look& look) const {
    for (std::uint32_t i = ring_over; i != ring_head; ++i) look(slots[i & ring_mask]);
  }

  /// Calls `look` with each put and get that went at once, the last one first.
  template <class Look>
  void for_each_direct(const Look& look) const {
    std::uint32_t before = head + 1;
    for (TransferState* at = newest; at != nullptr && is_direct_before(*at, before);) {
      before = at->place;
      TransferState* const older = at->next;
      look(*at);
      at = older;
    }
  }

  /// What was posted first and is not over; null: that is a put or get that went at once, or there
  /// is nothing.
  [[nodiscard]] const Posted* oldest_in_ring() const noexcept;

  /// The transfer that was posted first and is not over; null: there is none.
  [[nodiscard]] TransferState* oldest_posted() const noexcept;

  /// The place in the ring of what is posted next.
  Posted& next_place(TransferState* transfer, std::uint32_t count) noexcept {
    Posted& place = slots[ring_head & ring_mask];
    place.transfer = transfer;
    place.requests = count;
    place.place = head;
    return place;
  }

  // --- usual puts and gets (direct_datapath.hpp)

  /// Whether it goes at once.
  template <ibv_wr_opcode kOpcode>
  [[nodiscard]] bool is_direct(const Slice& here, const RemoteSlice& there) const noexcept;

  /// What is direct goes this way. Null: ibv_post_send(3) refused it, by `refusal`.
  template <ibv_wr_opcode kOpcode>
  TransferState* send_direct(const Slice& here, const RemoteSlice& there) noexcept;
  template <ibv_wr_opcode kOpcode>
  TransferState* send_short(const Slice& here, const RemoteSlice& there) noexcept;
  template <ibv_wr_opcode kOpcode>
  TransferState* send_long(const Slice& here, const RemoteSlice& there) noexcept;

  void fill_direct(ibv_send_wr& request, const Slice& here, const RemoteSlice& there) noexcept;
  [[nodiscard]] bool is_inlined() const noexcept;
  [[nodiscard]] bool post_direct(ibv_send_wr& request) noexcept;
  void note_direct(const Way& way) noexcept;
  void take_back_direct() noexcept;

  /// Takes a free transfer of the worker's, where it has one.
  [[nodiscard]] bool take_spare() noexcept;

  /// Gives all of them back to the worker.
  void give_back_spare() noexcept;

  /// The queue goes, and no handle may lead to it.
  void leave_transfers() noexcept;

  /// From now on EndpointState::finds_direct() is to be asked.
  void ask_before_direct() noexcept { direct_until = head; }

  // --- requests without completions (quiet_datapath.hpp)

  /// How many of the puts and gets behind one that is signaled may be quiet.
  [[nodiscard]] std::uint32_t next_quiet_run() noexcept;

  /// A put or get was posted: how the next ones are, if that changes here. The one that was.
  TransferState* count_quiet() noexcept;
  TransferState* take_turn() noexcept;

  /// So many puts and gets from here on are signaled, or quiet.
  void go_on_as(ibv_send_flags signaling_of, std::uint32_t requests) noexcept {
    signaling = long_put.send_flags = get_request.send_flags = signaling_of;
    turn_at = head + requests;
  }

  /// The next one is signaled.
  void be_loud() noexcept { go_on_as(IBV_SEND_SIGNALED, 1); }

  /// How many there are at the end of which nothing tells.
  [[nodiscard]] std::uint32_t quiet_tail() const noexcept { return head - told_until; }

  /// Whether what EndpointState::speak_up() has asked for is not told yet.
  [[nodiscard]] bool is_asking() const noexcept { return !gave_back_before(asked_until); }

  /// A completion says that all before `place` is over. What went at once need not be looked at.
  void end_until(std::uint32_t place) noexcept;

  /// `transfer` fails, and is not over with its place.
  void take_out(TransferState& transfer) noexcept;

  /// Of those before `place` the ones whose handles have gone are free.
  void drop_unheld(std::uint32_t place) noexcept;

  /// Those that are over have succeeded, and no longer have a place. Counts begin anew some time,
  /// and a handle may be kept for longer.
  void settle_direct() noexcept;

  std::uint32_t max_message = 0;  // what is longer does not go at once
  ibv_qp* queue = nullptr;
  std::uint64_t usual_reach = kNone;   // Reach of a region with which all was well
  std::uint64_t usual_target = kNone;  // reach_of() such a remote one, if it may be written
  TransferState* newest = nullptr;     // of puts and gets that went at once; may be over and gone
  std::uint32_t head = 0;              // so many requests were posted: the next one's place
  std::uint32_t direct_until = 0;      // up to this `head` puts and gets go without finds_direct()
  // The process, as forks() counts, in which calls need no lock; or none. WorkerState says the same
  // by `locks` and `made`, in a cache line that a put has no need of.
  unsigned unlocked_in;
  std::uint32_t turn_at = 0;  // at this `head` puts and gets become quiet, or signaled again

  // In two more what it is posted by: this one, and that of its request.
  alignas(64) ibv_sge direct_element{};
  Way usual_way;                           // of a put or get between the usual two
  Way usual_inlined_way;                   // of one that stands in its request
  std::uint32_t usual_inline = 0;          // so many bytes of a put stand in its request
  std::uint32_t depth;                     // so many requests it takes
  TransferState* first_waiting = nullptr;  // of those for which there is no room
  std::uint32_t told_until = 0;            // `head` behind the last request that is signaled
  std::uint8_t loud_left = 0;              // so many are signaled before any is quiet
  bool in_quiet_list = false;              // WorkerState::quiet_list
  std::uint32_t quiet_head = 0;            // `head` when that was looked at
  unsigned signaling = 0;                  // IBV_SEND_SIGNALED, or 0: of the next put or get
  WorkerState* worker;
  EndpointState* next_quiet = nullptr;
  std::uint64_t usual_source = kNone;  // as usual_target, if it may be read
  std::uint32_t inline_bytes = 0;
  std::uint32_t asked_until = 0;  // `head` behind the last request that speak_up() posted
  std::uint32_t unheld = 0;       // of those that are posted, whose handles have gone
  std::uint32_t busiest = 0;  // so many were under way at most, since nobody last waited in vain
  DirectRequest long_put;
  DirectRequest short_put;
  DirectRequest get_request;
  ibv_send_wr* refused_at = nullptr;
  int refusal = 0;  // errno of ibv_post_send(3), until somebody is told
  std::vector<Posted> ring;
  Posted* slots = nullptr;  // of `ring`
  std::uint32_t ring_mask;
  std::uint32_t ring_head = 0;  // so many were put into it
  std::uint32_t ring_over = 0;  // so many of them are over
  // Requests that no transfer asked for: what the library says and asks by itself.
  std::uint32_t unasked = 0;
  std::uint32_t unasked_over = 0;

 private:
  [[nodiscard]] bool is_direct_before(const TransferState& transfer,
                                      std::uint32_t place) const noexcept {
    return transfer.home == this && transfer.status == TransferState::Status::posted &&
           !transfer.is_given_back() && is_before(transfer.place, place);
  }
};

}  // namespace hbmwire::detail
