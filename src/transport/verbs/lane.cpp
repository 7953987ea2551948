// SPDX-License-Identifier: MIT
#include "transport/verbs/lane.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

#include "transport/verbs/lane_datapath.hpp"
#include "transport/verbs/post_receives.hpp"
#include "transport/verbs/shared_receives.hpp"
#include "verbs/calls.hpp"
#include "verbs/link_options.hpp"

namespace hbmwire::transport {

namespace {

Access access_of(const detail::NicState& nic) {
  return Access::remote_write | Access::remote_read |
         (nic.limits.atomics ? Access::remote_atomic : Access::none);
}

/// Links the requests to a chain, which ends with the last one.
void fill_chain(std::span<const Request> from, ibv_sge* elements, ibv_send_wr* requests) noexcept {
  for (std::size_t i = 0; i < from.size(); ++i) {
    ibv_send_wr& request = requests[i];
    request.next = i + 1 < from.size() ? &requests[i + 1] : nullptr;
    request.wr_id = from[i].id;
    to_request(from[i].operation, elements[i], request);
    if (!from[i].signaled) request.send_flags &= ~static_cast<unsigned>(IBV_SEND_SIGNALED);
  }
}

}  // namespace

VerbsChain::VerbsChain(std::span<const Request> requests)
    : PreparedChain(requests.size()), requests_(requests.size()), elements_(requests.size()) {
  fill_chain(requests, elements_.data(), requests_.data());
}

void VerbsChain::close(std::uint32_t size, Opcode opcode, std::uint64_t part,
                       std::uint64_t last) noexcept {
  // The request that was the last one so far becomes one in the middle again.
  ibv_send_wr& old_last = requests_[this->size() - 1];
  if (this->size() != requests_.size()) old_last.next = &old_last + 1;
  old_last.send_flags = 0;
  if (const ibv_wr_opcode verb = to_verbs(opcode); requests_.front().opcode != verb) {
    for (ibv_send_wr& request : requests_) request.opcode = verb;
  }
  for (std::uint32_t i = 0; i < size; ++i) requests_[i].wr_id = part;
  ibv_send_wr& new_last = requests_[size - 1];
  new_last.wr_id = last;
  new_last.next = nullptr;
  new_last.send_flags = IBV_SEND_SIGNALED;
  set_size(size);
}

VerbsLane::VerbsLane(const Nic& nic, VerbsCompletionQueue& completions)
    : Lane(completions, /*by_nic=*/true),
      nic_(state_of(nic).shared_from_this()),
      queue_of_completions_(completions) {}

Result<std::unique_ptr<VerbsLane>> VerbsLane::create(const Nic& nic,
                                                     VerbsCompletionQueue& completions,
                                                     const LaneOptions& options) {
  HBMWIRE_TRY(verbs::check_process(state_of(nic), Stage::open));
  std::unique_ptr<VerbsLane> lane(new VerbsLane(nic, completions));
  detail::NicState& device = *lane->nic_;
  HBMWIRE_TRY_ASSIGN(lane->entries_, verbs::port_entries(device, options.link));
  ibv_qp_init_attr attributes{};
  attributes.qp_context = &lane->shared_;  // verbs::take_async_events() writes there
  attributes.qp_type = IBV_QPT_RC;
  attributes.srq = options.receives != nullptr ? options.receives->get() : nullptr;
  attributes.send_cq = completions.get();
  attributes.recv_cq = completions.get();
  const std::uint32_t receives = options.receives != nullptr ? 0 : options.receive_depth;
  // Two elements, because a message is a header and a payload.
  attributes.cap = {.max_send_wr = options.send_depth,
                    .max_recv_wr = receives,
                    .max_send_sge = 2,
                    .max_recv_sge = receives != 0 ? 1U : 0U,
                    .max_inline_data = options.inline_bytes};
  HBMWIRE_TRY_ASSIGN(
      lane->qp_,
      verbs::from_pointer<verbs::Qp>(
          ibv_create_qp(options.pd != nullptr ? options.pd : device.pd.get(), &attributes),
          Stage::open, "ibv_create_qp",
          verbs::with_limit(device, "max_qp", device.limits.queue_pairs), Hint::queue_pair_limit));
  lane->queue_ = lane->qp_.get();
  // The provider may have rounded the depths up, but only the depths that were asked for have
  // places in the completion queue.
  lane->inline_bytes_ = attributes.cap.max_inline_data;
  lane->places_ = static_cast<int>(options.send_depth + receives);
  completions.take(lane->places_);
  const verbs::PortEntries& entries = lane->entries_;
  HBMWIRE_TRY(verbs::to_init(device, lane->qp_.get(), access_of(device), entries.pkey_index));
  lane->local_ = verbs::local_address(device, lane->qp_.get(), entries);
  return lane;
}

VerbsLane::~VerbsLane() {
  qp_.reset();
  queue_of_completions_.give_back(places_);
}

int VerbsLane::post(std::span<const Request> chain, bool& begun) noexcept {
  assert(!chain.empty() && chain.size() <= kMostChain);
  std::array<ibv_sge, kMostChain> elements;
  std::array<ibv_send_wr, kMostChain> requests;
  fill_chain(chain, elements.data(), requests.data());
  return post_chain(requests.front(), begun);
}

std::unique_ptr<PreparedChain> VerbsLane::prepare(std::span<const Request> requests) const {
  return std::make_unique<VerbsChain>(requests);
}

int VerbsLane::post_receives(std::span<const Receive> receives, std::size_t& posted) noexcept {
  return post_in_batches(receives, posted, [this](ibv_recv_wr* first, ibv_recv_wr** bad) {
    return ibv_post_recv(queue_, first, bad);
  });
}

Result<void> VerbsLane::connect(const verbs::Wiring& wiring) {
  HBMWIRE_TRY(verbs::check_process(*nic_, Stage::connect));
  wiring_ = wiring;
  was_ready_ = true;
  return verbs::to_ready(*nic_, qp_.get(), wiring_);
}

Result<void> VerbsLane::connect_again() {
  HBMWIRE_TRY(verbs::check_process(*nic_, Stage::connect));
  return verbs::to_ready(*nic_, qp_.get(), wiring_);
}

Result<void> VerbsLane::restart() {
  HBMWIRE_TRY(verbs::check_process(*nic_, Stage::connect));
  HBMWIRE_TRY(verbs::to_reset(*nic_, qp_.get()));
  verbs::take_async_events(*nic_);  // discards events from before the reset
  shared_.took_last.store(false);
  return verbs::to_init(*nic_, qp_.get(), access_of(*nic_), entries_.pkey_index);
}

Result<void> VerbsLane::to_error() {
  HBMWIRE_TRY(verbs::check_process(*nic_, Stage::connect));
  return verbs::to_error(*nic_, qp_.get());
}

bool VerbsLane::took_last_receive() noexcept {
  // Without connect(), a queue pair or a shared queue, it takes no shared receive.
  if (!was_ready_ || !qp_ || qp_.get()->srq == nullptr) return true;
  if (!shared_.took_last.load()) verbs::take_async_events(*nic_);
  return shared_.took_last.load();
}

void VerbsLane::cut() noexcept { qp_.reset(); }

bool VerbsLane::in_error() const noexcept {
  ibv_qp_attr attributes{};
  ibv_qp_init_attr made{};
  return ibv_query_qp(qp_.get(), &attributes, IBV_QP_STATE, &made) == 0 &&
         attributes.qp_state == IBV_QPS_ERR;
}

}  // namespace hbmwire::transport
