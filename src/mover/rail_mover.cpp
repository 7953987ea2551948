// SPDX-License-Identifier: MIT
#include "mover/rail_mover.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "hbmwire/topology.hpp"

#include "base/guarded.hpp"
#include "base/log.hpp"
#include "base/probes.hpp"
#include "endpoint/endpoint_state.hpp"
#include "verbs/link_options.hpp"

namespace hbmwire::detail {

namespace {

/// A WRITE and the READ behind it for each piece.
constexpr std::uint32_t kRequests = 2 * Rail::kPieces;
// A rail receives nothing; its queue pair has a receive queue all the same.
constexpr std::uint32_t kReceives = 1;

/// Whether a request of another NIC would fail in the same way: the key is at fault, or this
/// library.
bool is_of_request(transport::CompletionStatus status) noexcept {
  using enum transport::CompletionStatus;
  switch (status) {
    case length:
    case local_protection:
    case local_access:
    case remote_access:
    case remote_request:
    case remote_operation:
      return true;
    default:
      return false;
  }
}

Result<void> check_rail(const NicState& nic, const ConnectionAddress& ours,
                        const ConnectionAddress& theirs) {
  HBMWIRE_TRY(verbs::check_link(nic, ours, theirs));
  if (std::min(ours.max_message_bytes, theirs.max_message_bytes) >= RailMover::kMostPieceBytes)
    return {};
  return tl::make_unexpected(make_error(Errc::not_supported, Stage::connect,
                                        "its longest message is shorter than a piece",
                                        nic.info.name));
}

/// A device whose name is the rail's index, so that nics_near() can sort the rails.
NicDevice numbered(const NicInfo& info, std::size_t place) {
  NicDevice device;
  device.name = std::to_string(place);
  device.pci_address = info.pci_address;
  return device;
}

void tell(const Rail& rail, const std::string& peer, const Error& why) {
  HBMWIRE_PROBE5(fallback, Fallback::rail, peer.c_str(), Path::zero_copy, Path::zero_copy,
                 why.code);
  log_line(LogLevel::warn, [&] {
    return "rail " + rail.nic.nic.info().name + " of the endpoint with " + peer +
           " is taken out: " + describe(why);
  });
}

}  // namespace

RailMover::~RailMover() = default;

Result<std::unique_ptr<RailMover>> RailMover::create(EndpointState& endpoint,
                                                     std::span<WorkerNic* const> nics) {
  const LinkOptions& link = endpoint.options.link;
  WorkerState& worker = *endpoint.worker;
  auto mover = std::make_unique<RailMover>(endpoint);
  mover->from_bytes_ =
      std::max<std::uint64_t>(worker.context.settings().endpoint.rails_from_bytes, 1);
  if (mover->from_bytes_ == ~std::uint64_t{0}) return nullptr;
  for (WorkerNic* const nic : nics) {
    HBMWIRE_TRY(verbs::port_entries(state_of(nic->nic), link));
    // The step of the watch is an eighth of the time that look_after() measures.
    auto rail = std::make_unique<Rail>(*mover, *nic, endpoint.options.peer_timeout / 8);
    const auto make = [&]() -> Result<void> {
      HBMWIRE_TRY_ASSIGN(transport::VerbsCompletionQueue* const completions,
                         worker.completions_for(*nic, kRequests + kReceives));
      HBMWIRE_TRY_ASSIGN(rail->lane,
                         transport::VerbsLane::create(
                             nic->nic, *completions,
                             {.send_depth = kRequests, .receive_depth = kReceives, .link = link}));
      return {};
    };
    if (const auto made = make(); !made) {
      tell(*rail, endpoint.peer, made.error());
      continue;
    }
    mover->rails_.push_back(std::move(rail));
    mover->rails_.back()->index = static_cast<std::uint8_t>(mover->rails_.size());
  }
  if (mover->rails_.empty()) return nullptr;
  return mover;
}

void offer_rail(wire::EndpointOffer& own, const WorkerState& worker, const WorkerNic& nic,
                const ConnectionAddress& address) {
  own.rails.push_back(address);
  own.nics.at(own.rails.size()) = worker.place_of(nic);
  own.reads_in = std::min(own.reads_in, reads_of(state_of(nic.nic).limits.reads_in));
}

void RailMover::offer(wire::EndpointOffer& own) const {
  for (const auto& rail : rails_)
    offer_rail(own, *endpoint_.worker, rail->nic, rail->lane->local());
}

bool RailMover::connect(const wire::EndpointOffer& theirs) {
  rails_.resize(std::min(rails_.size(), theirs.rails.size()));
  if (endpoint_.sends.most_bytes() < kMostPieceBytes) rails_.clear();
  for (const auto& rail : rails_) {
    if (rail->closed) continue;
    transport::VerbsLane& lane = *rail->lane;
    rail->remote = theirs.rails[rail->index - 1U];
    verbs::Wiring wiring = endpoint_.wiring.wiring_on(lane.nic(), theirs);
    wiring.local = lane.local();
    wiring.remote = rail->remote;
    Result<void> wired = check_rail(lane.nic(), lane.local(), rail->remote);
    if (wired) wired = lane.connect(wiring);
    if (wired) continue;
    // The peer finds out when it uses the rail, and then tells this end.
    rail->closed = true;
    tell(*rail, endpoint_.peer, wired.error());
  }
  return !rails_.empty();
}

void RailMover::set_keys(RemoteRegionState& region, const RemoteKey& key) const {
  for (const auto& rail : rails_) set_rail_key(region, key, rail->remote, rail->index);
}

void set_rail_key(RemoteRegionState& region, const RemoteKey& key, const ConnectionAddress& remote,
                  std::size_t index) {
  const auto memory = key.on(remote);
  if (!memory) return;
  region.rail_keys[index - 1] = memory->remote_key;
  region.rails = static_cast<std::uint8_t>(region.rails | 1U << (index - 1));
}

/// The order of rails by distance from the memory. Among rails with equally little under way, the
/// nearest goes first.
RailMover::Order RailMover::order_for(const std::string& pci_address) noexcept {
  if (const auto known = orders_.find(pci_address); known != orders_.end()) return known->second;
  const auto found = guarded(Stage::post, [&]() -> Result<Order> {
    std::vector<NicDevice> nics{numbered(endpoint_.nic->info, 0)};
    for (const auto& rail : rails_) nics.push_back(numbered(rail->lane->nic().info, nics.size()));
    Order order{};
    std::size_t place = 0;
    for (const NearNic& nic : endpoint_.worker->context.nics_near(pci_address, nics))
      order[place++] = static_cast<std::uint8_t>(std::stoul(nic.name));
    return orders_.emplace(pci_address, order).first->second;
  });
  if (found) return *found;
  Order as_they_come{};
  std::iota(as_they_come.begin(), as_they_come.end(), std::uint8_t{0});
  return as_they_come;
}

/// Null: there is no rail with this index.
Rail* RailMover::at(std::uint8_t index) const noexcept {
  return index >= 1 && index <= rails_.size() ? rails_[index - 1U].get() : nullptr;
}

/// A request of the piece has failed: takes the rail out, or ends the endpoint if other NICs would
/// fail, too.
void RailMover::on_failed(RailPiece& piece, const transport::Completion& completion) noexcept {
  if (endpoint_.phase != EndpointPhase::ready || piece.rail->closed) return;
  const Error why = transport::completion_error(completion, endpoint_.peer);
  if (is_of_request(completion.status)) {
    endpoint_.fail(why, piece.transfer);
  } else {
    lose(*piece.rail, why, piece.transfer);
  }
}

/// Takes the rail out because of `why`, and tells the peer, which does so, too.
void RailMover::lose(Rail& rail, const Error& why, TransferState* culprit) noexcept {
  if (rail.closed || endpoint_.phase != EndpointPhase::ready) return;
  // The peer cannot answer RailDown any more, so the endpoint fails.
  if (endpoint_.ending.peer_left() || endpoint_.control.is_dead())
    return endpoint_.fail(why, culprit);
  close(rail);
  tell(rail, endpoint_.peer, why);
  endpoint_.control.say(wire::RailDown{rail.index});
}

/// Puts the rail into ERROR; if that is refused, destroys its queue pair.
void RailMover::close(Rail& rail) noexcept {
  if (rail.closed) return;
  rail.closed = true;
  rail.closed_at = Clock::now();
  endpoint_.look_soon();
  if (const auto in_error = rail.lane->to_error(); !in_error) {
    log_line(LogLevel::warn, [&] { return describe(in_error.error()); });
    rail.cut = true;
    endpoint_.ending.note_cut();
    rail.lane->cut();
  }
}

/// Tells a peer that has taken the rail out that no request of this end is under way on it.
void RailMover::answer(Rail& rail) noexcept {
  if (rail.closed && rail.outstanding == 0 && std::exchange(rail.must_answer, false))
    endpoint_.control.say(wire::RailClosed{rail.index});
}

bool RailMover::on_down(std::uint8_t index) noexcept {
  Rail* const rail = at(index);
  if (rail == nullptr || std::exchange(rail->heard_down, true)) return false;
  rail->peer_closed = true;
  rail->must_answer = true;
  if (!rail->closed) {
    close(*rail);
    if (endpoint_.phase == EndpointPhase::ready) {
      tell(*rail, endpoint_.peer,
           make_error(Errc::peer_failed, Stage::complete, "it has failed at the peer"));
    }
  }
  answer(*rail);
  if (endpoint_.phase == EndpointPhase::ready) endpoint_.post_waiting();
  return true;
}

void RailMover::on_closed(std::uint8_t index) noexcept {
  Rail* const rail = at(index);
  if (rail == nullptr || !rail->closed) return;
  rail->peer_closed = true;
  if (endpoint_.phase == EndpointPhase::ready) endpoint_.post_waiting();
}

void RailMover::close() noexcept {
  for (const auto& rail : rails_) close(*rail);
}

void RailMover::cut() noexcept {
  for (const auto& rail : rails_) {
    rail->closed = true;
    rail->cut = true;
    rail->lane->cut();
    for (RailPiece& piece : rail->pieces) {
      if (piece.transfer == nullptr) continue;
      TransferState& transfer = release(piece);
      if (transfer.parts == 0 && !transfer.waiting) endpoint_.ending.mark_failed(transfer);
    }
  }
}

/// Destroys a rail's queue pair: none of its requests completes any more. Its pieces are sent again
/// as soon as the peer has closed the rail, too.
void RailMover::cut(Rail& rail) noexcept {
  rail.cut = true;
  endpoint_.ending.note_cut();
  rail.lane->cut();
  for (RailPiece& piece : rail.pieces) {
    if (piece.transfer == nullptr) continue;
    piece.failed = true;
    settle(piece);
  }
  answer(rail);
}

void RailMover::look_after(Clock::time_point now) noexcept {
  if (endpoint_.phase != EndpointPhase::ready) return;
  for (const auto& rail : rails_) {
    const auto patience = endpoint_.options.peer_timeout;
    const auto posted = rail->watch.look(rail->head, rail->head - rail->outstanding, now);
    if (rail->outstanding == 0 || posted <= patience) continue;
    // A NIC whose completion queue has overrun stops, and cannot report it.
    if (!rail->closed && rail->lane->in_error()) {
      lose(*rail,
           make_error(Errc::system, Stage::complete,
                      "the queue pair broke, and its completion queue brings nothing",
                      endpoint_.peer, Hint::completions_lost),
           nullptr);
      // The rail is cut below, without a wait: a NIC that has stopped gives nothing back.
      rail->closed_at = now - patience;
    }
    if (!rail->closed || now - rail->closed_at < patience) continue;
    rail->lane->completions().lose();
    cut(*rail);
  }
}

void RailMover::on_lost(const transport::CompletionQueue& queue) noexcept {
  for (const auto& rail : rails_) {
    if (rail->cut || &rail->lane->completions() != &queue) continue;
    lose(*rail,
         make_error(Errc::system, Stage::complete, "the completion queue can't be polled",
                    rail->lane->nic().info.name, Hint::completions_lost),
         nullptr);
    if (endpoint_.phase == EndpointPhase::ready) cut(*rail);
  }
}

}  // namespace hbmwire::detail
