// SPDX-License-Identifier: MIT
#include "emulation/nic/queue/sender.hpp"

#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>

#include "emulation/common/fault_step.hpp"
#include "emulation/common/faults.hpp"
#include "emulation/nic/abi/raw_enum.hpp"
#include "emulation/nic/queue/completion.hpp"
#include "emulation/nic/queue/events.hpp"
#include "emulation/nic/queue/receive.hpp"
#include "emulation/nic/state/activity.hpp"
#include "emulation/nic/state/ports.hpp"
#include "emulation/nic/transport/address_handle.hpp"
#include "emulation/nic/transport/counting.hpp"

namespace hbmwire::emulation::nic {
namespace {

Request request_of(const Process& process, const ibv_send_wr& wr, std::uint32_t qp_type) {
  Request request;
  request.wr_id = wr.wr_id;
  request.opcode = wr.opcode;
  request.flags = wr.send_flags;
  request.immediate = wr.imm_data;
  if (qp_type == IBV_QPT_XRC_SEND) request.remote_srqn = wr.qp_type.xrc.remote_srqn;
  if (qp_type == IBV_QPT_UD) {
    request.address = address_of(*wr.wr.ud.ah);
    request.remote_qpn = wr.wr.ud.remote_qpn;
    request.remote_qkey = wr.wr.ud.remote_qkey;
  } else if (wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    request.remote_address = wr.wr.atomic.remote_addr;
    request.rkey = wr.wr.atomic.rkey;
    request.compare_add = wr.wr.atomic.compare_add;
    request.swap = wr.wr.atomic.swap;
  } else if (wr.opcode == IBV_WR_BIND_MW) {
    request.binding =
        binding_of(process, wr.bind_mw.mw, IBV_MW_TYPE_2, wr.bind_mw.rkey, wr.bind_mw.bind_info);
  } else if (wr.opcode == IBV_WR_SEND_WITH_INV || wr.opcode == IBV_WR_LOCAL_INV) {
    request.invalidate_key = wr.invalidate_rkey;
  } else {
    request.remote_address = wr.wr.rdma.remote_addr;
    request.rkey = wr.wr.rdma.rkey;
  }
  if (wr.num_sge > 0) request.elements = {wr.sg_list, static_cast<std::size_t>(wr.num_sge)};
  return request;
}

}  // namespace

int Sender::check(const Request& request) const {
  const OpcodeTraits* traits = traits_of(request.opcode);
  if (traits == nullptr || (traits->posters & poster_of(record_.type)) == 0) return EINVAL;
  if (!limits_.atomics && traits->is_atomic()) return EOPNOTSUPP;
  if ((request.flags & IBV_SEND_IP_CSUM) != 0) return EINVAL;  // as mlx5 without that offload
  if (request.opcode == IBV_WR_BIND_MW && request.binding.window == 0) return EINVAL;
  if (request.elements.size() > limits_.max_sge) return EINVAL;
  if (request.inlined() &&
      (!traits->may_be_inline || bytes_of(request.elements) > limits_.max_inline_bytes)) {
    return EINVAL;
  }
  const std::uint32_t state = record_.state.load();
  const bool accepts =
      state == IBV_QPS_RTS || state == IBV_QPS_SQD || state == IBV_QPS_ERR || state == IBV_QPS_SQE;
  return accepts ? 0 : EINVAL;
}

int Sender::post_locked(const ibv_send_wr& wr) {
  if (raw_value(wr.opcode) > IBV_WR_DRIVER1) return EINVAL;
  if (wr.num_sge < 0 || (record_.type == IBV_QPT_UD && wr.wr.ud.ah == nullptr)) return EINVAL;
  Request request = request_of(process_, wr, record_.type);
  return submit(request);
}

int Sender::post_all(std::span<const Request> requests) {
  const std::lock_guard guard(mutex);
  for (const Request& request : requests) {
    if (const int error = check(request); error != 0) return error;
  }
  if (!has_room(requests.size())) return ENOMEM;
  if (FaultPlan::plans(FaultRule::Point::operation)) [[unlikely]] {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const int error = ask_fault_plan(requests[i], posted_ + i);
      if (error == 0) continue;
      // None of the requests is posted, so their faults are forgotten.
      faults_.erase(faults_.lower_bound(posted_), faults_.end());
      return error;
    }
  }
  for (Request request : requests) accept(request);
  return 0;
}

int Sender::submit(Request& request) {
  if (const int error = check(request); error != 0) return error;
  if (!has_room(1)) return ENOMEM;
  if (FaultPlan::plans(FaultRule::Point::operation)) [[unlikely]] {
    if (const int error = ask_fault_plan(request, posted_); error != 0) return error;
  }
  accept(request);
  return 0;
}

void Sender::accept(Request& request) {
  request.index = posted_++;
  if (!faults_.empty()) [[unlikely]] {
    const auto planned = faults_.find(request.index);
    if (planned != faults_.end()) request.faults = &planned->second;
  }
  fault_step("post");
  if (flights_.empty() && !takes_time(request) && attempt(request)) return;
  park(request);
}

bool Sender::takes_time(const Request& request) const {
  return process_.shared().header.takes_time.load(std::memory_order_relaxed) != 0 ||
         held_up(request);
}

/// Asks the fault plan about a request. Faults happen on the wire. Local operations, and requests
/// to a queue pair that is connected to itself, do not use it. Returns an errno if the plan refuses
/// the request.
int Sender::ask_fault_plan(const Request& request, std::uint64_t index) {
  const OpcodeTraits& traits = *traits_of(request.opcode);
  if (traits.stays_here || connection.dest_qpn == record_.qpn.load()) return 0;
  const OperationFaults faults = FaultPlan::of_this_process().on_operation(traits.fault_name);
  if (faults.error_number != 0) return faults.error_number;
  if (faults.link.down) take_link_down(process_, record_.port, faults.link.for_ns);
  if (faults != OperationFaults{}) faults_[index] = faults;
  return 0;
}

void Sender::forget_faults(const Request& request) {
  if (request.faults != nullptr) [[unlikely]]
    faults_.erase(request.index);
}

Outcome Sender::run(const Request& request) {
  if (traits_of(request.opcode)->stays_here) return execute_local(process_, *this, request);
  const Activity activity(process_);
  return execute_(process_, *this, request);
}

/// Returns true if the request is over.
bool Sender::attempt(const Request& request) {
  const std::uint32_t state = record_.state.load();
  if (state == IBV_QPS_ERR || state == IBV_QPS_SQE) {
    finish(request, IBV_WC_WR_FLUSH_ERR, 0);
    forget_faults(request);
    return true;
  }
  // In SQD only requests that have begun are finished; the others wait for RTS.
  if (state != IBV_QPS_RTS) return false;
  Outcome outcome;
  if (!try_execute(request, outcome)) return false;
  if (!completed_now_) finish(request, outcome.status, outcome.bytes, outcome.scattered);
  completed_now_ = false;
  forget_faults(request);
  if (record_.traffic.noted == Traffic::counted) announce_traffic(process_, *this);
  return true;
}

/// Returns false if the request has to wait. Otherwise `outcome` has a status.
bool Sender::try_execute(const Request& request, Outcome& outcome) {
  outcome = run(request);
  const Wait wait = outcome.wait;
  if (wait != Wait::none && !note_wait(outcome, outcome.status)) return false;
  if (waiting_for_ != Wait::none) {
    count_wait_end(process_, *this, waiting_for_, now_ns() - waiting_since_ns_, wait != Wait::none);
  }
  waiting_for_ = Wait::none;
  return true;
}

bool Sender::complete_now(const Request& request, std::uint64_t bytes) {
  if (completes_later_) return true;
  completed_now_ = true;
  return tell(request, IBV_WC_SUCCESS, bytes);
}

void Sender::notify_drained_locked() {
  notify_drained_ = is_busy_locked();
  if (notify_drained_) return;
  const Hold queue(record_.queue);
  if (!queue.held()) {
    process_.owe([self = shared()] {
      // If the mutex is taken, try again later.
      const std::unique_lock guard(self->mutex, std::try_to_lock);
      if (guard && !self->closed_) self->notify_drained_locked();
      return guard.owns_lock();
    });
    return;
  }
  if (record_.state.load() == IBV_QPS_SQD) raise_on_qp(process_, record_, IBV_EVENT_SQ_DRAINED);
}

/// Notes that the request in execution has to wait, and until when at most. Sets `status` to the
/// error that ends the wait, and returns true if that time has come. man ibv_modify_qp: a timeout
/// of 0 and an rnr_retry of 7 mean for ever.
bool Sender::note_wait(const Outcome& outcome, ibv_wc_status& status) {
  constexpr std::uint32_t kForever = 7;
  const std::uint64_t now = now_ns();
  if (waiting_for_ != outcome.wait) {
    waiting_for_ = outcome.wait;
    waiting_since_ns_ = now;
    count_wait_begin(process_, *this, outcome.wait);
  }
  std::uint64_t patience_ns = 0;
  bool for_ever = false;
  if (outcome.wait == Wait::unreachable) {
    status = IBV_WC_RETRY_EXC_ERR;
    for_ever = connection.timeout == 0;
    patience_ns = connection.ack_timeout_ns() * (connection.retry_count + 1 - retries_used_);
  } else {
    status = IBV_WC_RNR_RETRY_EXC_ERR;
    for_ever = connection.rnr_retry == kForever;
    patience_ns = outcome.rnr_timer_ns * connection.rnr_retry;
  }
  wait_ends_ns_ = for_ever ? kNever : waiting_since_ns_ + patience_ns;
  return now >= wait_ends_ns_;
}

void Sender::park(const Request& request) {
  close_lane_locked();
  Flight& flight = flights_.emplace_back(request);
  flight.posted_ns = now_ns();
  record_.sends_parked.store(static_cast<std::uint32_t>(flights_.size()));
  if (waiting_for_ != Wait::none && begun_ == 0) {  // the request waits at its responder
    flight.stage = Flight::Stage::travelling;
    begun_ = 1;
  }
  if (flights_.size() == 1) {
    process_.add_parked(shared());
  } else if (waiting_for_ != Wait::none) {
    return;  // an earlier request waits, so this one cannot begin
  }
  // The event that the request waits for may have come before the helper knew of the request.
  progress_locked();
}

/// Writes the completion. Returns false if the CQ overran.
bool Sender::tell(const Request& request, ibv_wc_status status, std::uint64_t bytes,
                  std::uint32_t scattered) {
  count_completion(process_, record_.port, status);
  if (status != IBV_WC_SUCCESS || limits_.signal_all || (request.flags & IBV_SEND_SIGNALED) != 0) {
    Cqe entry{};
    entry.wr_id = request.wr_id;
    entry.status = static_cast<std::uint32_t>(status);
    entry.opcode = static_cast<std::uint32_t>(traits_of(request.opcode)->completion);
    entry.byte_len = static_cast<std::uint32_t>(bytes);
    entry.qpn = record_.qpn.load();
    entry.send_index = request.index + 1;
    entry.extra = static_cast<std::uint16_t>(scattered);
    return push(process_, record_.send_cq, entry, false);
  }
  return true;
}

void Sender::finish(const Request& request, ibv_wc_status status, std::uint64_t bytes,
                    std::uint32_t scattered) {
  if (!tell(request, status, bytes, scattered)) overrun(process_, record_.send_cq);
  if (status == IBV_WC_SUCCESS || status == IBV_WC_WR_FLUSH_ERR) return;
  if (is_reliable()) {
    enter_error(process_, record_, record_.qpn.load(), std::nullopt);
  } else {
    stop_sending();
  }
}

/// After a failed send, an unreliable QP still receives (IBTA vol. 1, the SQE state).
void Sender::stop_sending() {
  std::uint32_t running = IBV_QPS_RTS;
  record_.state.compare_exchange_strong(running, IBV_QPS_SQE);
}

void Sender::drain_locked() {
  close_lane_locked();
  // Once closed, the record may already belong to another QP.
  if (!closed_) drain_traffic(process_, record_);
}

void Sender::reset_locked() {
  drain_locked();
  const bool had_any = !flights_.empty();
  flights_.clear();
  begun_ = arrived_ = fetching_ = 0;
  left_ns_ = arrives_ns_ = fetched_ns_ = 0;
  stalled_ = false;
  wire_.reset();
  faults_.clear();
  cache.clear();
  close_lane_locked();
  posted_ = 0;
  waiting_for_ = Wait::none;
  notify_drained_ = false;
  record_.sends_released.store(0);
  record_.sends_parked.store(0);
  if (had_any) process_.remove_parked(this);
}

void Sender::close_locked() {
  reset_locked();
  closed_ = true;
}

}  // namespace hbmwire::emulation::nic
