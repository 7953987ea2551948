// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "emulation/nic/memory/region.hpp"
#include "emulation/nic/queue/express_lane.hpp"
#include "emulation/nic/queue/flight.hpp"
#include "emulation/nic/state/parkable.hpp"
#include "emulation/nic/state/process.hpp"
#include "emulation/nic/transport/transport.hpp"

namespace hbmwire::emulation::nic {

/// The limits of a send queue that ibv_create_qp() has granted.
struct SendLimits {
  std::uint32_t depth = 0;
  std::uint32_t max_sge = 0;
  std::uint32_t max_inline_bytes = 0;
  bool signal_all = false;
  bool atomics = true;
};

/// The requester's side of a connection, as set by modify_qp.
struct Connection {
  std::uint32_t dest_qpn = 0;
  std::uint32_t path_mtu = 0;
  std::uint32_t next_psn = 0;
  std::uint32_t path_mtu_bytes = 0;
  Destination to{};
  std::uint32_t timeout = 0;
  std::uint32_t retry_count = 0;
  std::uint32_t rnr_retry = 0;

  /// man ibv_modify_qp: 4.096 us * 2^timeout. 0 means for ever; the caller handles that.
  [[nodiscard]] std::uint64_t ack_timeout_ns() const { return 4096ULL << timeout; }
};

class Wire;
struct SendCompletion;

/// The send queue of a QP, in its own process. The thread that posts a request executes it. A
/// request that has to wait or takes time (queue/sender_flights.cpp) is executed by threads that
/// poll and by the helper thread. Requests complete in order.
class Sender final : public Parkable {
 public:
  Sender(Process& process, QpRecord& record, Execute execute, SendLimits limits)
      : process_(process),
        record_(record),
        limits_(limits),
        qpn_(record.qpn.load()),
        send_cq_(process.shared().cqs[record.send_cq]),
        execute_(execute) {}

  /// Says which object contains the sender. shared() keeps that object alive.
  void lie_in(const std::shared_ptr<void>& owner) { self_ = std::shared_ptr<Sender>(owner, this); }

  [[nodiscard]] std::shared_ptr<Sender> shared() const { return self_.lock(); }

  /// Posts requests, as ibv_post_send(3) does.
  int post(ibv_send_wr* first, ibv_send_wr** bad);

  /// Posts all requests, or none if they do not fit or one is wrong (ibv_wr_complete).
  int post_all(std::span<const Request> requests);

  /// Executes waiting requests, and requests in flight that are due.
  void progress_locked() override;

  [[nodiscard]] std::uint64_t due_locked() const override { return due_ns_; }

  /// Drops all posted requests (RESET, destroy). The mutex is held.
  void reset_locked();
  void close_locked();

  /// Whether a request has begun and is not over. In SQD such requests are finished.
  [[nodiscard]] bool is_busy_locked() const { return waiting_for_ != Wait::none || begun_ != 0; }

  /// Raises IBV_EVENT_SQ_DRAINED once no request is in execution. The mutex is held; the QP is in
  /// SQD.
  void notify_drained_locked();

  /// Completes the request in execution, which has succeeded, before its attempt returns. Does
  /// nothing if its completion takes time or an earlier request is not complete. Returns false if
  /// the CQ overran: the caller must call overrun() once it holds no queue lock.
  [[nodiscard]] bool complete_now(const Request& request, std::uint64_t bytes);

  /// Makes complete_now() do nothing from now on.
  void completes_later() {
    completes_later_ = true;
    close_lane_locked();
  }

  /// Executes a request on both sides. The caller handles the outcome. The mutex is held.
  Outcome run(const Request& request);

  /// Closes the express lane, because its facts may have changed. The mutex is held.
  void close_lane_locked() { lane_ = {}; }

  /// Adds the uncounted traffic to the ports' counters. The mutex is held.
  void drain_locked();

  [[nodiscard]] const SendLimits& limits() const { return limits_; }

  [[nodiscard]] QpRecord& record() const { return record_; }

  [[nodiscard]] Execute transport() const { return execute_; }

 private:
  // The express lane, for requests that complete at once (queue/sender_express.cpp).

  /// The mark and the token of the calling thread.
  struct Own {
    ThreadMark* mark;
    std::uint64_t token;
  };

  /// `no`: the general path has to take the request. `unknown`: the lane lacks a fact, which
  /// learn() may find out.
  enum class Delivered : std::uint8_t { yes, no, unknown };

  int post_generally(ibv_send_wr* first, ibv_send_wr** bad);
  int post_locked(const ibv_send_wr& wr);
  struct Message;
  bool express(const ibv_send_wr& wr, Own own);
  bool express_message(const ibv_send_wr& wr, Own own);
  bool express_read(const ibv_send_wr& wr, Own own);
  [[nodiscard]] bool is_expressible(const ibv_send_wr& wr) const;
  template <ExpressLane::Use kHere, typename Act>
  Delivered at_responder(const ibv_send_wr& wr, Own own, Act act);
  Delivered write(const ibv_send_wr& wr, std::uint64_t from, QpRecord& responder) noexcept;
  Delivered send(const ibv_send_wr& wr, Own own, std::uint64_t from, QpRecord& responder,
                 Message& message);
  Delivered read(const ibv_send_wr& wr, std::uint64_t to, QpRecord& responder) noexcept;
  std::uint32_t count_packets(QpRecord& responder, std::uint32_t bytes) noexcept;
  [[nodiscard]] bool complete_express(const ibv_send_wr& wr, Own own, ibv_wc_opcode opcode);
  bool complete_generally(const ibv_send_wr& wr, ibv_wc_opcode opcode);
  [[nodiscard]] SendCompletion completion_of(const ibv_send_wr& wr, ibv_wc_opcode opcode) const;
  bool learn(const ibv_send_wr& wr) noexcept;
  bool open_lane(QpRecord& responder) noexcept;
  bool find(ExpressLane::Use use, const Party& party, const Access& access) noexcept;
  bool find_there(const ibv_send_wr& wr, QpRecord& responder) noexcept;

  int check(const Request& request) const;

  [[nodiscard, gnu::always_inline]] bool has_room(std::size_t count) const {
    return posted_ - record_.sends_released.load(std::memory_order_acquire) + count <=
           limits_.depth;
  }

  int submit(Request& request);
  void accept(Request& request);  // gives the request its index, then executes or parks it
  int ask_fault_plan(const Request& request, std::uint64_t index);
  [[nodiscard]] bool takes_time(const Request& request) const;
  void park(const Request& request);
  bool attempt(const Request& request);
  bool try_execute(const Request& request, Outcome& outcome);
  void forget_faults(const Request& request);
  void stop_sending();
  bool tell(const Request& request, ibv_wc_status status, std::uint64_t bytes,
            std::uint32_t scattered = 0);
  void finish(const Request& request, ibv_wc_status status, std::uint64_t bytes,
              std::uint32_t scattered = 0);
  bool note_wait(const Outcome& outcome, ibv_wc_status& status);

  // Requests that wait or take time (queue/sender_flights.cpp).
  [[nodiscard]] Route route_of(const Request& request) const;
  void flush_flights();
  bool begin_flights(std::uint64_t now);
  void begin(Flight& flight, std::uint64_t begin_ns);
  void hold_up(Flight& flight);
  bool execute_flights(std::uint64_t now);
  bool execute_flight(Flight& flight, std::uint64_t now);
  bool act(Flight& flight);
  bool execute_swapped(std::uint64_t now);
  void depart(Flight& flight);
  void go_astray(Flight& flight);
  void answer(Flight& flight, bool waited, std::uint64_t now);
  bool complete_flights(std::uint64_t now);
  void bring_answer(Flight& flight);
  void update_due();
  [[nodiscard]] bool has_failed() const;

  [[nodiscard]] bool is_reliable() const { return (poster_of(record_.type) & kReliable) != 0; }

  // Members that every request needs come first and lie close together.
  Process& process_;
  QpRecord& record_;
  SendLimits limits_;
  std::uint32_t qpn_;
  CqRecord& send_cq_;
  std::uint64_t posted_ = 0;

 public:
  /// Code that changes it closes the lane.
  Connection connection;

 private:
  ExpressLane lane_;
  bool completes_later_ = false;
  std::deque<Flight> flights_;
  Execute execute_;
  std::size_t begun_ = 0;     // flights that have begun, from the front
  std::size_t arrived_ = 0;   // flights that have arrived, from the front
  std::size_t fetching_ = 0;  // READs and atomics among those begun
  // The times by which the flights that have begun have left, arrived and brought their answers.
  std::uint64_t left_ns_ = 0;
  std::uint64_t arrives_ns_ = 0;
  std::uint64_t fetched_ns_ = 0;
  std::uint64_t next_begins_ns_ = 0;
  bool stalled_ = false;  // the QP was not in RTS, so the next request begins when it may again
  unsigned retries_used_ = 0;
  std::shared_ptr<Wire> wire_;
  std::map<std::uint64_t, OperationFaults> faults_;  // of requests that are not over, by index
  Wait waiting_for_ = Wait::none;
  std::uint64_t waiting_since_ns_ = 0;
  std::uint64_t wait_ends_ns_ = 0;
  std::uint64_t due_ns_ = 0;     // 0: never
  bool completed_now_ = false;   // the request in execution has its completion already
  bool notify_drained_ = false;  // once no request is in execution
  bool closed_ = false;          // the record may be another QP's
  std::weak_ptr<Sender> self_;

 public:
  RegionCache cache;
  RecentTargets recent_targets;
};

}  // namespace hbmwire::emulation::nic
