// SPDX-License-Identifier: MIT
#include "internals.hpp"

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "connect/listener_state.hpp"
#include "endpoint/endpoint_state.hpp"
#include "registration/exports.hpp"

namespace hbmwire::test::internals {

namespace {

/// The peers that wait at the worker's first listener.
std::size_t waiting_peers(const detail::WorkerState& worker) {
  const detail::ListenerState* first = nullptr;
  worker.by_clock.for_each([&](const detail::ByClock& each) {
    if (first == nullptr) first = dynamic_cast<const detail::ListenerState*>(&each);
  });
  return first == nullptr ? 0 : first->ready.size();
}

using transport::PiecePool;

static_assert(kPieces == PiecePool::kPieces && kPieceBytes == PiecePool::kPieceBytes);

detail::EndpointState& endpoint_of(const Worker& worker, std::size_t nth = 0) {
  std::vector<detail::EndpointState*> all;
  for (const auto& endpoint : state_of(worker).endpoints) all.push_back(endpoint.get());
  std::ranges::sort(all, {}, &detail::EndpointState::number);
  return *all.at(nth);
}

QueuePairView view_of(const transport::Lane& lane) {
  ibv_qp* const queue_pair = dynamic_cast<const transport::VerbsLane&>(lane).queue_pair();
  ibv_qp_attr got{};
  ibv_qp_init_attr made{};
  EXPECT_EQ(ibv_query_qp(queue_pair, &got,
                         IBV_QP_AV | IBV_QP_PKEY_INDEX | IBV_QP_PATH_MTU | IBV_QP_TIMEOUT |
                             IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY,
                         &made),
            0);
  return {.service_level = got.ah_attr.sl,
          .traffic_class = got.ah_attr.grh.traffic_class,
          .gid_index = got.ah_attr.grh.sgid_index,
          .pkey_index = got.pkey_index,
          .mtu_bytes = 128U << static_cast<unsigned>(got.path_mtu),
          .ack_timeout = got.timeout,
          .retry_count = got.retry_cnt,
          .rnr_retry = got.rnr_retry};
}

}  // namespace

WorkerView look_at(const Worker& worker) {
  detail::WorkerState& state = state_of(worker);
  const detail::WorkerLock lock(state);
  const auto free = std::ranges::count(state.transfers, detail::TransferState::Status::free,
                                       &detail::TransferState::status);
  const detail::StagedMover* const mover =
      state.nics.empty() ? nullptr : state.nics.front().staged.get();
  const bool has_pieces = mover != nullptr && mover->is_prepared();
  return {.endpoints = state.endpoints.size(),
          .free_transfers = static_cast<std::size_t>(free) - detail::TransferPool::kParts,
          .staged = state.staged,
          .handshakes = state.sockets.handshakes(),
          .waiting_peers = waiting_peers(state),
          .has_pieces = has_pieces,
          .free_pieces = has_pieces ? mover->free_pieces() : kPieces};
}

bool keeps_endpoint(const Worker& worker, std::uint64_t id) {
  const auto& labels = state_of(worker).labels;
  const auto* const label = labels.find(static_cast<std::uint32_t>(id));
  return label != nullptr && label->in_use;
}

std::size_t count_endpoints(const Worker& worker) {
  detail::WorkerState& state = state_of(worker);
  const detail::WorkerLock lock(state);
  return state.endpoints.size();
}

namespace {

std::size_t count_queue_pairs(const detail::EndpointState& state) {
  std::size_t count = state.movers.rails ? state.movers.rails->rails().size() : 0;
  if (state.sends.lane().by_nic()) ++count;
  if (state.control.lane().by_nic()) ++count;
  return count;
}

}  // namespace

EndpointView look_at_endpoint(const Worker& worker, std::size_t nth) {
  const detail::WorkerLock lock(state_of(worker));
  const detail::EndpointState& state = endpoint_of(worker, nth);
  return {.posted = state.sends.head(),
          .outstanding = state.sends.outstanding(),
          .room = state.sends.room(),
          .moving = state.movers.moving,
          .nothing_waits = state.pending.empty(),
          .lanes_cut = state.ending.lanes_cut(),
          .peer_left = state.ending.peer_left(),
          .peer_is_quiet = state.ending.peer_is_quiet(),
          .copies = state.paths.copies(),
          .serves_copy = state.movers.ipc.serves(),
          .copies_asked = state.movers.ipc.count(),
          .queue_pairs = count_queue_pairs(state)};
}

std::vector<QueuePairView> look_at_queue_pairs(const Worker& worker, std::size_t nth) {
  const detail::WorkerLock lock(state_of(worker));
  const detail::EndpointState& state = endpoint_of(worker, nth);
  std::vector<QueuePairView> views{view_of(state.sends.lane()), view_of(state.control.lane())};
  if (!state.movers.rails) return views;
  for (const auto& rail : state.movers.rails->rails()) views.push_back(view_of(*rail->lane));
  return views;
}

PoolView look_at_receives(const Worker& worker) {
  detail::WorkerState& state = state_of(worker);
  const detail::WorkerLock lock(state);
  PoolView view{.count = 0, .promised = 0, .posted = 0, .waiting = 0, .budget = state.budget.taken};
  for (const auto& group : state.nics.front().groups) {
    view.count += group->messages->count();
    view.promised += group->messages->promised();
    view.posted += group->messages->posted();
    view.waiting += group->messages->waiting();
  }
  return view;
}

std::uint32_t places(const Worker& worker, std::size_t nth) {
  const detail::WorkerLock lock(state_of(worker));
  return endpoint_of(worker, nth).messages.places();
}

void cancel(const Worker& worker, std::size_t nth, const Error& why) {
  detail::WorkerState& state = state_of(worker);
  const detail::WorkerLock lock(state);
  state.cancel(state.transfers[nth], why);
}

void shorten_next_queue(const Worker& worker, int places) {
  const detail::WorkerLock lock(state_of(worker));
  auto& nic = state_of(worker).nics.front();
  auto small = transport::VerbsCompletionQueue::create(state_of(nic.nic).shared_from_this(),
                                                       nic.channel.get(), places);
  if (!small) return;
  // Pretends that the queue has room for many endpoints.
  (*small)->give_back(1'000'000);
  nic.completions.insert(nic.completions.begin(), std::move(*small));
}

void make_shared_files() { static_cast<void>(detail::share_exports({})); }

void keep_pieces_apart(const Worker& worker) { endpoint_of(worker).movers.pieces.admit(false); }

void limit_messages(const Worker& worker, std::uint32_t bytes) {
  endpoint_of(worker).sends.set_most_bytes(bytes);
}

void skip_requests(const Worker& worker, std::uint32_t count) {
  endpoint_of(worker).sends.skip(count);
}

void forget_refused_copy(const Worker& worker) { endpoint_of(worker).movers.ipc.forget_refusal(); }

void forget_socket(const Worker& worker) { endpoint_of(worker).watch.forget_socket(); }

void probe(const Worker& worker) { endpoint_of(worker).watch.keep_alive(); }

PutView look_at_put(const Worker& worker) {
  const detail::EndpointState& endpoint = endpoint_of(worker);
  const auto begin = reinterpret_cast<std::uintptr_t>(&endpoint.worker);
  // The last one is most_plain(), which the table begins with.
  const auto end = reinterpret_cast<std::uintptr_t>(&endpoint.movers.table) + sizeof(std::uint64_t);
  return {.begin = begin % 64, .bytes = end - begin};
}

void say(const Worker& worker, std::vector<std::byte> message) {
  const detail::WorkerLock lock(state_of(worker));
  endpoint_of(worker, 0).control.say_bytes(std::move(message));
}

std::vector<std::byte> offer(const Worker& worker) {
  const detail::WorkerLock lock(state_of(worker));
  return wire::encode(endpoint_of(worker, 0).wiring.offer());
}

void say_rail_down(const Worker& worker, std::uint8_t rail) {
  endpoint_of(worker).control.say(wire::RailDown{rail});
}

RemoteView look_at(const RemoteRegion& region) {
  const auto& state = detail::RemoteRegionState::of(region);
  return {.address = state.address,
          .length_bytes = state.length_bytes,
          .token = state.token,
          .remote_key = state.remote_key,
          .connection = state.connection,
          .access = state.access,
          .by_engine = detail::is_by_engine(state)};
}

void set(RemoteRegion& region, const RemoteView& view) {
  auto& state = detail::RemoteRegionState::of(region);
  state.address = view.address;
  state.length_bytes = view.length_bytes;
  state.token = view.token;
  state.remote_key = view.remote_key;
  state.connection = view.connection;
  state.access = view.access;
}

}  // namespace hbmwire::test::internals
