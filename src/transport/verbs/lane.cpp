// SPDX-License-Identifier: MIT
#include "transport/verbs/lane.hpp"

#include <algorithm>
#include <utility>

#include "verbs/calls.hpp"

namespace hbmwire::transport {

namespace {

Access access_of(const detail::NicState& nic) {
  return Access::remote_write | Access::remote_read |
         (nic.limits.atomics ? Access::remote_atomic : Access::none);
}

}  // namespace

Result<std::unique_ptr<CompletionQueue>> CompletionQueue::create(
    std::shared_ptr<detail::NicState> nic, ibv_comp_channel* channel, int capacity) {
  HBMWIRE_TRY(verbs::check_process(*nic, Stage::open));
  const int entries =
      nic->limits.completions > 0 ? std::min(capacity, nic->limits.completions) : capacity;
  HBMWIRE_TRY_ASSIGN(verbs::Cq cq,
                     verbs::from_pointer<verbs::Cq>(
                         ibv_create_cq(nic->context.get(), entries, nullptr, channel, 0),
                         Stage::open, "ibv_create_cq", nic->info.name, Hint::queue_pair_limit));
  ibv_cq* const made = cq.get();
  std::unique_ptr<CompletionQueue> queue(
      new CompletionQueue(std::move(nic), std::move(cq), entries));
  made->cq_context = queue.get();  // what ibv_get_cq_event(3) gives back
  return queue;
}

std::unique_ptr<CompletionQueue> CompletionQueue::of_carrier(ibv_cq& queue) {
  std::unique_ptr<CompletionQueue> made(new CompletionQueue(nullptr, verbs::Cq(), 0));
  made->queue_ = &queue;
  return made;
}

CompletionQueue::~CompletionQueue() {
  // Unacknowledged events would make ibv_destroy_cq wait for ever (ibv_get_cq_event(3)). In a child
  // by fork(2) there is no such call, and a thread that it does not have may hold the lock.
  if (unacknowledged_ != 0 && !cq_.is_inherited()) ibv_ack_cq_events(cq_.get(), unacknowledged_);
}

Result<void> CompletionQueue::arm() {
  if (armed_) return {};
  if (!cq_) {
    // It has no events: what makes its descriptors readable it has to look at each time.
    ibv_req_notify_cq(queue_, 0);
    return {};
  }
  HBMWIRE_TRY(verbs::from_errno_result(ibv_req_notify_cq(cq_.get(), 0), Stage::complete,
                                       "ibv_req_notify_cq", nic_->info.name));
  armed_ = true;
  return {};
}

void CompletionQueue::took_event() noexcept {
  // Acknowledging takes a mutex; once in a while is enough (ibv_get_cq_event(3)).
  constexpr unsigned kAcknowledgeEvery = 64;
  if (++unacknowledged_ == kAcknowledgeEvery) {
    ibv_ack_cq_events(cq_.get(), unacknowledged_);
    unacknowledged_ = 0;
  }
  armed_ = false;
}

Result<std::unique_ptr<Lane>> Lane::create(const Nic& nic, CompletionQueue& completions,
                                           const LaneOptions& options) {
  HBMWIRE_TRY(verbs::check_process(nic.state(), Stage::open));
  auto lane = std::make_unique<Lane>();
  lane->nic = nic.state().shared_from_this();
  detail::NicState& device = *lane->nic;
  ibv_qp_init_attr attributes{};
  attributes.qp_type = IBV_QPT_RC;
  attributes.send_cq = completions.get();
  attributes.recv_cq = completions.get();
  // A message is a header and what it carries.
  attributes.cap = {.max_send_wr = options.send_depth,
                    .max_recv_wr = options.receive_depth,
                    .max_send_sge = 2,
                    .max_recv_sge = 1,
                    .max_inline_data = options.inline_bytes};
  HBMWIRE_TRY_ASSIGN(
      lane->qp,
      verbs::from_pointer<verbs::Qp>(
          ibv_create_qp(options.pd != nullptr ? options.pd : device.pd.get(), &attributes),
          Stage::open, "ibv_create_qp", device.info.name, Hint::queue_pair_limit));
  lane->queue = lane->qp.get();
  // The provider may have rounded up, but nobody has reserved more places than were asked for.
  lane->inline_bytes = attributes.cap.max_inline_data;
  lane->places = static_cast<int>(options.send_depth + options.receive_depth);
  completions.take(lane->places);
  lane->completions = &completions;
  HBMWIRE_TRY(verbs::to_init(device, lane->qp.get(), access_of(device)));
  lane->local = verbs::local_address(device, lane->qp.get());
  return lane;
}

Lane::~Lane() {
  qp.reset();
  if (completions != nullptr) completions->give_back(places);
}

Result<void> Lane::connect(const verbs::Wiring& with) {
  HBMWIRE_TRY(verbs::check_process(*nic, Stage::connect));
  wiring = with;
  return verbs::to_ready(*nic, qp.get(), with);
}

Result<void> Lane::restart() {
  HBMWIRE_TRY(verbs::check_process(*nic, Stage::connect));
  HBMWIRE_TRY(verbs::to_reset(*nic, qp.get()));
  return verbs::to_init(*nic, qp.get(), access_of(*nic));
}

Result<void> Lane::post_receive(std::uint64_t id, std::span<std::byte> memory,
                                std::uint32_t local_key) {
  ibv_sge element{.addr = reinterpret_cast<std::uint64_t>(memory.data()),
                  .length = static_cast<std::uint32_t>(memory.size()),
                  .lkey = local_key};
  ibv_recv_wr request{};
  request.wr_id = id;
  request.sg_list = &element;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  return verbs::from_errno_result(ibv_post_recv(queue, &request, &bad), Stage::post,
                                  "ibv_post_recv", nic->info.name);
}

Result<void> Lane::to_error() {
  if (carrier != nullptr) {
    carrier->break_off(*queue);
    return {};
  }
  HBMWIRE_TRY(verbs::check_process(*nic, Stage::connect));
  return verbs::to_error(*nic, qp.get());
}

void Lane::cut() noexcept {
  qp.reset();
  if (carrier != nullptr) carrier->cut();
}

bool Lane::in_error() const noexcept {
  if (carrier != nullptr) return false;
  ibv_qp_attr attributes{};
  ibv_qp_init_attr made{};
  return ibv_query_qp(qp.get(), &attributes, IBV_QP_STATE, &made) == 0 &&
         attributes.qp_state == IBV_QPS_ERR;
}

}  // namespace hbmwire::transport
