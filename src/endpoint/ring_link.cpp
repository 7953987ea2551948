// SPDX-License-Identifier: MIT
#include "endpoint/ring_link.hpp"

#include <utility>

#include "endpoint/endpoint_state.hpp"
#include "registration/shared_keys.hpp"

namespace hbmwire::detail {

RingLink::~RingLink() { leave(); }

/// Leaves the poller; the bell may go to another endpoint from here on.
void RingLink::leave() noexcept {
  if (std::exchange(polled_, false)) endpoint_.worker->neighbours.rings.remove(*this);
}

std::uint32_t RingLink::own_number() const noexcept {
  constexpr std::uint32_t kMost = (1U << wire::kSharesEndpointBits) - 1;
  // Process and hold already tell links apart, so this number need not be unique. Never 0, which
  // means no rings.
  return excluded_ ? 0 : endpoint_.number % kMost + 1;
}

Result<void> RingLink::offer(transport::Neighbour& neighbour, const wire::EndpointOffer& theirs) {
  if (own_number() == 0 || theirs.shares->endpoint == 0) return {};
  HBMWIRE_TRY(own_.make(own_file_));
  theirs_ = *theirs.shares;
  peers_incarnation_ = theirs.data.incarnation;
  neighbour_ = &neighbour;
  neighbour.tell_of_ring(theirs_.endpoint, own_file_.name);
  return {};
}

Result<void> RingLink::settle() {
  SharedKeys* const ours = shared_exports();
  if (neighbour_ == nullptr || ours == nullptr) return {};
  const SharedHold* const told =
      ours->take_hold(SharedHold::owner_of(theirs_.process, peers_incarnation_), own_number());
  if (told == nullptr) return {};
  constexpr auto kRelaxed = std::memory_order_relaxed;
  const SharedFileName name{
      .process = theirs_.process,
      .descriptor = told->ring_descriptor.load(kRelaxed),
      .mark = {told->ring_mark[0].load(kRelaxed), told->ring_mark[1].load(kRelaxed)}};
  HBMWIRE_TRY(peers_.open(name));
  writer_.emplace(*own_.get());
  reader_.emplace(*peers_.get());
  peer_reaches_private_ = told->reaches_private.load(kRelaxed) == 1;
  // The bell of a hold has the hold's index.
  bell_ = static_cast<std::uint32_t>(told - ours->holds().holds.data());
  endpoint_.worker->neighbours.rings.add(*this, ours->holds());
  on_ = polled_ = true;
  return {};
}

void RingLink::look() noexcept {
  if (!on_) return;
  if (endpoint_.phase != EndpointPhase::ready) return leave();
  // A frame counts even if its bell was lost.
  if (reader_->has_frame()) endpoint_.worker->neighbours.rings.heat(*this);
  // The peer has opened this end's ring, and needs its descriptor no more.
  if (own_file_.fd && writer_->is_open()) own_file_.fd.reset();
}

}  // namespace hbmwire::detail
