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
#include "emulation/nic/state/process.hpp"
#include "emulation/nic/transport/transport.hpp"

namespace hbmwire::emulation::nic {

struct SendLimits {
  std::uint32_t depth = 0;
  std::uint32_t max_sge = 0;
  std::uint32_t max_inline_bytes = 0;
  bool signal_all = false;
};

/// The requester's side of a connection, set by modify_qp.
struct Connection {
  std::uint32_t dest_qpn = 0;
  Gid dgid{};
  std::uint32_t path_mtu_bytes = 0;
  std::uint32_t path_mtu = 0;
  std::uint32_t next_psn = 0;
  std::uint32_t timeout = 0;
  std::uint32_t retry_count = 0;
  std::uint32_t rnr_retry = 0;
};

/// The send queue of a QP. It lies in its process; a request is executed by the thread that posts
/// it, or, when it has to wait, by whoever polls and by the process' helper thread. Completions are
/// in order.
class Sender : public std::enable_shared_from_this<Sender> {
 public:
  Sender(Process& process, QpRecord& record, Execute execute, SendLimits limits)
      : process_(process), record_(record), execute_(execute), limits_(limits) {}

  int post(const ibv_send_wr* first, const ibv_send_wr** bad);

  /// All of them or, when they do not fit or one is wrong, none (ibv_wr_complete).
  int post_all(std::span<const Request> requests);

  /// Runs what waits. Takes the mutex.
  void progress();

  /// When progress() is due even if nobody pokes; 0: never.
  std::uint64_t deadline_ns();

  /// Forgets everything posted (RESET, destroy). The mutex is held.
  void reset_locked();
  void close_locked();
  void progress_locked();

  /// Whether a request that was begun is still waiting: in SQD it goes on to its end.
  [[nodiscard]] bool is_busy_locked() const { return waiting_for_ != Wait::none; }

  /// Raises IBV_EVENT_SQ_DRAINED once nothing is under way. The mutex is held, the QP is in SQD.
  void notify_drained_locked();

  /// Completes the request in execution, which has succeeded, before its attempt returns. False:
  /// the CQ overran, and overrun() is due once no queue lock is held.
  [[nodiscard]] bool complete_now(const Request& request, std::uint64_t bytes);

  /// Has its port count what it moved. The mutex is held.
  void drain_locked();

  [[nodiscard]] const SendLimits& limits() const { return limits_; }

  [[nodiscard]] QpRecord& record() const { return record_; }

  std::mutex mutex;  // whatever follows, and every request in execution

  Connection connection;
  RegionCache cache;
  RecentTargets recent_targets;

 private:
  struct Parked {
    Request request;
    std::vector<ibv_sge> elements;
    std::vector<std::byte> inline_data;
  };

  int check(const Request& request) const;
  bool has_room(std::size_t count) const;
  int submit(Request& request);  // gives it its index
  void ask_fault_plan(Request& request);
  void park(const Request& request);
  Outcome run(const Request& request);
  bool attempt(const Request& request);
  void forget_faults(const Request& request);
  void stop_sending();
  bool tell(const Request& request, ibv_wc_status status, std::uint64_t bytes,
            std::uint32_t scattered = 0);
  void finish(const Request& request, ibv_wc_status status, std::uint64_t bytes,
              std::uint32_t scattered = 0);
  bool expired(const Outcome& outcome, ibv_wc_status& status);

  Process& process_;
  QpRecord& record_;
  Execute execute_;
  SendLimits limits_;
  std::uint64_t posted_ = 0;
  std::deque<Parked> parked_;
  std::map<std::uint64_t, OperationFaults> faults_;  // of requests that are not over, by index
  Wait waiting_for_ = Wait::none;
  std::uint64_t waiting_since_ns_ = 0;
  std::uint64_t due_ns_ = 0;
  bool completed_now_ = false;
  bool notify_drained_ = false;
  bool closed_ = false;
};

}  // namespace hbmwire::emulation::nic
