// SPDX-License-Identifier: MIT
#include "connect/late_lanes.hpp"

#include <algorithm>
#include <utility>

#include "base/guarded.hpp"
#include "base/incarnation.hpp"
#include "base/node_id.hpp"
#include "endpoint/endpoint_state.hpp"
#include "verbs/link_options.hpp"
#include "verbs/queue_pair.hpp"
#include "wire/handshake.hpp"

namespace hbmwire::detail {

namespace {

/// Whether a queue pair is at the port of that address.
bool is_at(ConnectionAddress queue_pair, const ConnectionAddress& port) noexcept {
  // The address of a port has no queue pair: only the rest is compared.
  queue_pair.queue_pair = port.queue_pair;
  queue_pair.packet_sequence = port.packet_sequence;
  return queue_pair == port;
}

}  // namespace

Result<void> LateLanes::begin(std::span<WorkerNic* const> further) {
  late_ = true;
  endpoint_.sends.set_depth(0);  // the queue is held until open()
  further_.assign(further.begin(), further.end());
  for (const WorkerNic* const nic : further_) {
    const NicState& state = state_of(nic->nic);
    HBMWIRE_TRY_ASSIGN(const verbs::PortEntries entries,
                       verbs::port_entries(state, endpoint_.options.link));
    our_rails_.push_back(verbs::port_address(state, entries));
  }
  return {};
}

void LateLanes::offer(wire::EndpointOffer& own) const {
  // Queue pair 0 belongs to no connection, and marks a late offer: EndpointOffer::is_late().
  own.control = own.data;
  own.control.queue_pair = 0;
  if (made_) return;
  for (std::size_t i = 0; i < further_.size(); ++i)
    offer_rail(own, *endpoint_.worker, *further_[i], our_rails_[i]);
}

void LateLanes::connect(const wire::EndpointOffer& theirs) {
  const bool of_use = endpoint_.sends.most_bytes() >= RailMover::kMostPieceBytes;
  further_.resize(of_use ? std::min(theirs.rails.size(), further_.size()) : 0);
  their_rails_ = theirs.rails;
  their_rails_.resize(further_.size());
}

void LateLanes::set_keys(RemoteRegionState& region, const RemoteKey& key) const {
  for (std::size_t i = 0; i < their_rails_.size(); ++i)
    set_rail_key(region, key, their_rails_[i], i + 1);
}

void LateLanes::need() noexcept {
  if (!late_ || endpoint_.phase != EndpointPhase::ready) return;
  if (!needed_since_) needed_since_ = endpoint_.worker->now;
  if (made_ || !endpoint_.ending.peer_left()) return make_or_fail();
  endpoint_.fail(make_error(Errc::peer_failed, Stage::connect, "the peer has said goodbye",
                            endpoint_.peer, Hint::peer_gone),
                 nullptr);
}

void LateLanes::expect_need() noexcept {
  if (late_ && endpoint_.phase == EndpointPhase::ready && !endpoint_.ending.peer_left())
    make_or_fail();
}

/// Makes the queue pairs once; if that fails, the endpoint fails.
void LateLanes::make_or_fail() noexcept {
  if (std::exchange(made_, true)) return;
  if (const auto made = guarded(Stage::connect, [&] { return make(); }); !made)
    endpoint_.fail(made.error(), nullptr);
}

/// Makes the queue pairs, and tells the peer of them.
Result<void> LateLanes::make() {
  HBMWIRE_TRY(endpoint_.wiring.make_data_lane());
  HBMWIRE_TRY_ASSIGN(auto rails, RailMover::create(endpoint_, further_));
  // Keys of the peer's memory name rails by the places that the ends have told each other, so all
  // rails must be there.
  if (rails && rails->rails().size() == further_.size()) {
    endpoint_.movers.rails = std::move(rails);
    endpoint_.movers.set_table(endpoint_.paths, *endpoint_.worker_nic.staged);
    endpoint_.wiring.label_rails();
  }
  wire::EndpointOffer own = endpoint_.wiring.offer();
  own.hello.clear();  // the handshake has brought it to the peer
  endpoint_.control.say(wire::QueuePairs{wire::encode(own)});
  return {};
}

/// Whether the peer's data lane and rails are at the ports that it has told before.
bool LateLanes::is_as_told(const wire::EndpointOffer& now) const noexcept {
  if (now.is_late() || now.over_tcp() || !is_at(now.data, *endpoint_.remote_regions.peer()))
    return false;
  for (std::size_t i = 0; i < std::min(now.rails.size(), their_rails_.size()); ++i) {
    if (!is_at(now.rails[i], their_rails_[i])) return false;
  }
  return true;
}

void LateLanes::on(const wire::QueuePairs& message) {
  if (!late_ || std::exchange(heard_, true))
    return endpoint_.break_protocol("the peer tells of its queue pairs out of turn");
  if (endpoint_.phase != EndpointPhase::ready) return;
  const auto theirs = wire::decode_offer(message.offer);
  if (!theirs || !is_as_told(*theirs))
    return endpoint_.break_protocol("the peer's queue pairs are not those that it has offered");
  make_or_fail();
  if (endpoint_.phase != EndpointPhase::ready) return;
  if (const auto wired = wire_up(*theirs); !wired) return endpoint_.fail(wired.error(), nullptr);
  wired_ = true;
  endpoint_.control.say(wire::QueuePairsReady{});
  if (peer_ready_) open();
}

/// Wires the queue pairs up with the peer's.
Result<void> LateLanes::wire_up(const wire::EndpointOffer& theirs) {
  HBMWIRE_TRY(endpoint_.wiring.wire_data(theirs));
  // Transfers may wait for the rails, so the mover stays; rails that cannot be used are closed.
  if (RailMover* const rails = endpoint_.movers.rails.get(); rails != nullptr) {
    if (theirs.rails.size() < further_.size()) {
      rails->close();
    } else {
      rails->connect(theirs);
    }
  }
  their_rails_.clear();
  return {};
}

void LateLanes::on_ready() noexcept {
  if (!made_ || std::exchange(peer_ready_, true))
    return endpoint_.break_protocol("the peer's queue pairs are ready out of turn");
  if (wired_) open();
}

/// Both ends are wired up: posts what waits.
void LateLanes::open() noexcept {
  if (endpoint_.phase != EndpointPhase::ready) return;
  endpoint_.sends.set_depth(endpoint_.options.send_depth);
  if (endpoint_.has_waiting()) endpoint_.post_waiting();
}

std::uint32_t whereabouts_for(WorkerState& worker, const EndpointOptions& options) {
  PathRules rules;
  if (worker.nics.empty() || node_id() == kUnknownNode) return 0;
  if (!rules.set_policies(options.paths, worker.context.paths()) ||
      !rules.admits(Path::shared_memory))
    return 0;
  return wire::whereabouts(node_id(), incarnation());
}

}  // namespace hbmwire::detail
