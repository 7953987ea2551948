// SPDX-License-Identifier: MIT
#include <algorithm>

#include "emulation/nic/queue/qp_table.hpp"
#include "emulation/nic/queue/sender.hpp"
#include "emulation/nic/queue/wire.hpp"
#include "emulation/nic/state/activity.hpp"
#include "emulation/nic/state/ports.hpp"
#include "emulation/nic/transport/capture.hpp"
#include "emulation/nic/transport/counting.hpp"

/// Requests that wait, and requests that take time (emulation/docs/adr/0009). A request begins when
/// the one before has left, acts at the responder when it arrives, and completes when its
/// acknowledgement or answer is back. These are three passes over one queue, each in order. All
/// times are computed from the times at which things could have happened, not from the time of a
/// look, so it does not matter which thread polls and how often.
namespace hbmwire::emulation::nic {
namespace {

bool is_fenced(const Request& request) { return (request.flags & IBV_SEND_FENCE) != 0; }

bool is_plain_write(const Flight& flight) {
  return flight.request.opcode == IBV_WR_RDMA_WRITE && flight.request.faults == nullptr;
}

}  // namespace

void Sender::progress_locked() {
  if (closed_) return;  // the record may be another QP's by now
  const bool had_any = !flights_.empty();
  for (bool moved = true; moved && !flights_.empty();) {
    const std::uint32_t state = record_.state.load();
    if (state == IBV_QPS_ERR || state == IBV_QPS_SQE) {
      flush_flights();
      break;
    }
    const std::uint64_t now = now_ns();
    moved = begin_flights(now);
    moved = execute_flights(now) || moved;
    moved = complete_flights(now) || moved;
  }
  record_.sends_parked.store(static_cast<std::uint32_t>(flights_.size()));
  update_due();
  if (had_any && flights_.empty()) process_.remove_parked(this);
}

void Sender::update_due() {
  std::uint64_t due = arrived_ == 0 ? kNever : flights_.front().completes_ns;
  if (waiting_for_ != Wait::none) {
    due = std::min(due, wait_ends_ns_);
  } else if (!has_failed()) {
    if (arrived_ < begun_) due = std::min(due, flights_[arrived_].arrives_ns);
    if (begun_ < flights_.size()) due = std::min(due, next_begins_ns_);
  }
  due_ns_ = due == kNever ? 0 : due;
  if (due_ns_ != 0) process_.wake_by(due_ns_);
}

/// Flushes all requests. Those that succeeded at a reliable responder are flushed as well, because
/// they are not acknowledged any more.
void Sender::flush_flights() {
  while (!flights_.empty()) {
    const Flight& flight = flights_.front();
    ibv_wc_status status = IBV_WC_WR_FLUSH_ERR;
    if (flight.stage == Flight::Stage::arrived &&
        (!is_reliable() || flight.outcome.status != IBV_WC_SUCCESS))
      status = flight.outcome.status;
    if (!flight.completed)
      finish(flight.request, status, flight.outcome.bytes, flight.outcome.scattered);
    forget_faults(flight.request);
    flights_.pop_front();
  }
  begun_ = arrived_ = fetching_ = 0;
  waiting_for_ = Wait::none;
}

Route Sender::route_of(const Request& request) const {
  const std::uint32_t qpn = record_.type == IBV_QPT_UD ? request.remote_qpn : connection.dest_qpn;
  const QpRecord& peer = process_.shared().qps[qp_index(qpn)];
  return {record_.port, peer.qpn.load() == qpn ? peer.port : 0};
}

/// Begins requests whose time has come. In SQD none begins, and none after one that waits for its
/// responder.
bool Sender::begin_flights(std::uint64_t now) {
  bool moved = false;
  next_begins_ns_ = kNever;
  while (begun_ < flights_.size() && waiting_for_ == Wait::none) {
    Flight& flight = flights_[begun_];
    const bool fenced = is_fenced(flight.request);
    if (record_.state.load() != IBV_QPS_RTS) {
      stalled_ = true;
      break;
    }
    if (fenced && fetching_ != 0) break;
    std::uint64_t begin_ns = std::max(stalled_ ? now : flight.posted_ns, left_ns_);
    if (fenced) begin_ns = std::max(begin_ns, fetched_ns_);
    if (begin_ns > now) {
      next_begins_ns_ = begin_ns;
      break;
    }
    stalled_ = false;
    begin(flight, begin_ns);
    ++begun_;
    moved = true;
  }
  return moved;
}

void Sender::begin(Flight& flight, std::uint64_t begin_ns) {
  const Request& request = flight.request;
  flight.stage = Flight::Stage::travelling;
  flight.left_ns = flight.arrives_ns = begin_ns;
  if (fetches(request)) ++fetching_;
  if (!traits_of(request.opcode)->stays_here) {
    SharedState& shared = process_.shared();
    const Route route = route_of(request);
    const Behaviour& behaviour = shared.ports[record_.port].behaviour;
    const std::uint64_t longest_ns = behaviour.async_ns / 2;  // for each of arrival and completion
    const auto chance = [&](Chance purpose, std::uint64_t most) {
      return by_chance(behaviour, record_, request.index, purpose, most);
    };
    const Passage passage =
        pass(shared, route, begin_ns, fetches(request) ? 0 : bytes_of(request.elements));
    flight.left_ns = passage.left_ns;
    flight.arrives_ns = passage.arrives_ns + chance(Chance::arrival, longest_ns);
    flight.answer_ns = latency_of(shared, route) + chance(Chance::completion, longest_ns);
    flight.may_swap = longest_ns != 0 && route.to != 0 &&
                      shared.ports[route.to].behaviour.relaxed && chance(Chance::swap, 1) != 0;
    if (held_up(request)) [[unlikely]]
      hold_up(flight);
    if (!is_reliable()) {
      // Complete when it has left. depart() sends the message on.
      flight.lands_ns = flight.arrives_ns;
      flight.arrives_ns = flight.left_ns;
      flight.answer_ns = chance(Chance::completion, longest_ns);
      if (request.faults != nullptr) flight.answer_ns += request.faults->delay_ns;
    }
  }
  left_ns_ = flight.left_ns;
  flight.arrives_ns = arrives_ns_ = std::max(arrives_ns_, flight.arrives_ns);
}

/// Applies the faults that the plan has for the way to the responder.
void Sender::hold_up(Flight& flight) {
  const OperationFaults& faults = *flight.request.faults;
  flight.arrives_ns += faults.delay_ns;
  if (!is_reliable()) return;  // depart() handles drop and late
  const bool for_ever = connection.timeout == 0;
  const std::uint64_t timeout_ns = connection.ack_timeout_ns();
  if (faults.drop) {
    // After the timeout the requester tries again, or gives the request up.
    flight.lost = !for_ever && connection.retry_count == 0;
    flight.retries = for_ever || flight.lost ? 0 : 1;
    flight.arrives_ns = for_ever ? kNever : flight.arrives_ns + timeout_ns;
  } else if (faults.late_ns != 0) {
    flight.lost = !for_ever && faults.late_ns >= timeout_ns * (connection.retry_count + 1);
    if (flight.lost) return;  // go_astray() does the rest
    flight.arrives_ns += faults.late_ns;
    flight.retries = for_ever ? 0 : static_cast<unsigned>(faults.late_ns / timeout_ns);
  }
}

bool Sender::has_failed() const {
  return arrived_ != 0 && flights_[arrived_ - 1].outcome.status != IBV_WC_SUCCESS;
}

/// Executes arrived requests in order, until one is not due, has to wait or has failed.
bool Sender::execute_flights(std::uint64_t now) {
  bool moved = false;
  while (arrived_ < begun_ && !has_failed()) {
    Flight& flight = flights_[arrived_];
    if (flight.arrives_ns > now) break;
    if (flight.may_swap && !execute_swapped(now)) break;
    if (flight.stage != Flight::Stage::arrived && !execute_flight(flight, now)) break;
    ++arrived_;
    moved = true;
  }
  return moved;
}

/// Returns false if the request has to wait.
bool Sender::execute_flight(Flight& flight, std::uint64_t now) {
  const Request& request = flight.request;
  const bool waited = waiting_for_ != Wait::none;
  // The plan either drops a lost request, or lets it arrive after the requester has given it up.
  const bool is_late = flight.lost && !request.faults->drop;
  if (is_late && !flight.astray) {
    go_astray(flight);
    return false;
  }
  if (flight.retries != 0 && !waited)  // at the first try only
    count(process_, record_.port, PortCounter::local_ack_timeout_err, flight.retries);
  if (flight.lost) {
    flight.outcome = Outcome::done(IBV_WC_RETRY_EXC_ERR);
  } else if (!is_reliable() && !traits_of(request.opcode)->stays_here) {
    depart(flight);
  } else if (!act(flight)) {
    return false;
  }
  flight.stage = Flight::Stage::arrived;
  answer(flight, waited, now);
  if (record_.traffic.noted == Traffic::counted) announce_traffic(process_, *this);
  return true;
}

/// Executes a request at its responder. The data of a READ or an atomic is kept until the answer is
/// back. Returns false if it has to wait.
bool Sender::act(Flight& flight) {
  Request request = flight.request;
  ibv_sge answer{};
  const std::uint64_t bytes = bytes_of(request.elements);
  const bool answers = takes_time(request) && fetches(request) && bytes <= kMaxMessageBytes;
  if (answers) {
    flight.data.resize(bytes);
    answer = {reinterpret_cast<std::uint64_t>(flight.data.data()),
              static_cast<std::uint32_t>(bytes), 0};
    request.elements = {&answer, 1};
    request.flags |= IBV_SEND_INLINE;
  }
  retries_used_ = flight.retries;
  const bool is_oldest = &flight == &flights_.front();  // requests complete in order
  completes_later_ = answers || flight.answer_ns != 0 || !is_oldest;
  const bool done = try_execute(request, flight.outcome);
  completes_later_ = false;
  retries_used_ = 0;
  flight.completed = completed_now_;
  completed_now_ = false;
  return done;
}

/// Computes when a request that has arrived completes.
void Sender::answer(Flight& flight, bool waited, std::uint64_t now) {
  flight.completes_ns = waited ? now : flight.arrives_ns;
  if (flight.lost) return;
  if (fetches(flight.request)) {
    SharedState& shared = process_.shared();
    const Route route = route_of(flight.request);
    if (route.to != 0 && flight.outcome.status == IBV_WC_SUCCESS) {
      const Passage back =
          pass(shared, {route.to, route.from}, flight.completes_ns, flight.outcome.bytes);
      flight.completes_ns = back.arrives_ns - latency_of(shared, route);  // answer_ns includes it
    }
    fetched_ns_ = std::max(fetched_ns_, flight.completes_ns + flight.answer_ns);
  }
  flight.completes_ns += flight.answer_ns;
}

/// Sends a UC or UD message off. It is complete when it has left, and travels on its own.
void Sender::depart(Flight& flight) {
  const Request& request = flight.request;
  const OperationFaults faults = request.faults == nullptr ? OperationFaults{} : *request.faults;
  std::vector<std::byte> payload;
  ibv_wc_status status = IBV_WC_SUCCESS;
  {
    const Activity activity(process_);
    status = capture(process_, *this, request, payload);
  }
  flight.outcome = Outcome::done(status, payload.size());
  if (status != IBV_WC_SUCCESS) return;
  if (faults.drop) return count_unacknowledged(process_, *this, 0, request, flight.outcome);
  Flight message(request);
  message.carry(std::move(payload));
  message.arrives_ns = flight.lands_ns + faults.late_ns;
  if (faults.late_ns != 0)
    return std::make_shared<Wire>(process_, *this)->carry(std::move(message));
  if (!wire_) wire_ = std::make_shared<Wire>(process_, *this);
  wire_->carry(std::move(message));
}

/// Handles a reliable request that arrives after its requester has given it up. It still acts on
/// the responder's memory, but data that it would fetch is dropped.
void Sender::go_astray(Flight& flight) {
  const Request& request = flight.request;
  std::vector<std::byte> payload;
  ibv_wc_status status = IBV_WC_SUCCESS;
  if (!fetches(request)) {
    const Activity activity(process_);
    status = capture(process_, *this, request, payload);
  } else if (request.opcode != IBV_WR_RDMA_READ) {
    payload.resize(sizeof(std::uint64_t));
  }
  if (status == IBV_WC_SUCCESS && request.opcode != IBV_WR_RDMA_READ) {
    Flight message(request);
    message.carry(std::move(payload));
    message.arrives_ns = flight.arrives_ns + request.faults->late_ns;
    std::make_shared<Wire>(process_, *this)->carry(std::move(message));
  }
  // The requester gives the request up when its last try has timed out.
  flight.astray = true;
  flight.retries = connection.retry_count;
  flight.arrives_ns = flight.left_ns + connection.ack_timeout_ns() * (connection.retry_count + 1);
}

/// Lets the second of two WRITEs to memory with relaxed ordering land first, if they may swap.
/// Returns false if the second has not arrived yet.
bool Sender::execute_swapped(std::uint64_t now) {
  Flight& first = flights_[arrived_];
  first.may_swap = false;
  if (arrived_ + 1 >= begun_) return true;
  Flight& second = flights_[arrived_ + 1];
  if (!is_plain_write(first) || !is_plain_write(second) || waiting_for_ != Wait::none) return true;
  if (second.arrives_ns > now) {  // the first waits for it
    first.arrives_ns = second.arrives_ns;
    first.may_swap = true;
    return false;
  }
  bool swap = false;
  {
    const Activity activity(process_);
    swap = lands_relaxed(process_, *this, first.request) &&
           lands_relaxed(process_, *this, second.request);
  }
  if (swap) execute_flight(second, now);
  return true;
}

bool Sender::complete_flights(std::uint64_t now) {
  bool moved = false;
  while (arrived_ != 0 && flights_.front().completes_ns <= now) {
    Flight& flight = flights_.front();
    if (fetches(flight.request)) bring_answer(flight);
    const Outcome& outcome = flight.outcome;
    if (!flight.completed) finish(flight.request, outcome.status, outcome.bytes, outcome.scattered);
    forget_faults(flight.request);
    flights_.pop_front();
    --begun_;
    --arrived_;
    moved = true;
    if (notify_drained_) notify_drained_locked();
    // After a failure, progress_locked() flushes the others.
    if (record_.state.load() == IBV_QPS_ERR || record_.state.load() == IBV_QPS_SQE) return true;
  }
  return moved;
}

/// Stores the answer of a READ or an atomic. A READ is repeated first, because its data may include
/// what later requests have written.
void Sender::bring_answer(Flight& flight) {
  --fetching_;
  // Without data the answer is in its place already.
  if (flight.outcome.status != IBV_WC_SUCCESS || flight.data.empty()) return;
  Request request = flight.request;
  std::vector<std::byte> repeated;
  if (request.opcode == IBV_WR_RDMA_READ) {
    repeated.resize(flight.data.size());
    const ibv_sge answered{reinterpret_cast<std::uint64_t>(repeated.data()),
                           static_cast<std::uint32_t>(repeated.size()), 0};
    request.elements = {&answered, 1};
    request.flags |= IBV_SEND_INLINE;
    request.repeats = true;
    const Outcome outcome = run(request);
    if (outcome.wait == Wait::none && outcome.status == IBV_WC_SUCCESS) flight.data = repeated;
  }
  const Activity activity(process_);
  flight.outcome = store_answer(process_, *this, flight.request, flight.data);
}

}  // namespace hbmwire::emulation::nic
