// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "emulation/common/fault_counters.hpp"
#include "emulation/common/fault_rule.hpp"

namespace hbmwire::emulation {

/// A link that goes down, in the hands of whoever knows the port.
struct LinkFault {
  bool down = false;
  std::uint64_t for_ns = 0;  ///< 0: until somebody brings it up

  bool operator==(const LinkFault&) const = default;
};

/// What the plan does to one operation on its way.
struct OperationFaults {
  int error_number = 0;  ///< 0, or the errno by which its post is refused
  bool flip = false;
  std::uint64_t flip_byte = 0;  ///< modulo the payload's length
  bool drop = false;
  std::uint64_t delay_ns = 0;  ///< 0: none
  std::uint64_t late_ns = 0;   ///< 0: none
  bool revoke = false;         ///< the responder's region, before it is reached
  LinkFault link;              ///< of the requester's port

  bool operator==(const OperationFaults&) const = default;
};

/// What the plan does to one call.
struct CallFaults {
  int error_number = 0;  ///< 0, or the errno that it is to fail with
  bool revoke = false;   ///< the region that it registers
  LinkFault link;
};

/// The plan of this process, its counters shared by the fabric. Constructed once, on first use;
/// thread-safe.
class FaultPlan {
 public:
  /// The plan in HBMWIRE_EMULATION_FAULTS; without a world or a plan it never acts. A plan that
  /// does not parse was already refused by `hbmwire emulate`; should one get here all the same, it
  /// is ignored.
  static FaultPlan& of_this_process();

  /// Whether this process has constructed a plan with rules for one of these kinds of point: all
  /// that data paths ask when there is none.
  template <typename... Points>
  static bool plans(Points... points) noexcept {
    return (planned_points_.load(std::memory_order_relaxed) & (bit_of(points) | ...)) != 0;
  }

  /// From now on plans(step) says yes: somebody besides the plan wants to know (StepTrap).
  static void watch_steps() noexcept {
    planned_points_.fetch_or(bit_of(FaultRule::Point::step), std::memory_order_relaxed);
  }

  [[nodiscard]] bool empty() const noexcept { return rules_.empty(); }

  /// Counts one operation `op` ("send", "write", "read", "atomic"): asked once for each request,
  /// when it is posted, and kept with it. A rule that kills or stops has done so here.
  OperationFaults on_operation(std::string_view op) noexcept;

  /// Counts one call. A rule that kills or stops has done so here.
  CallFaults on_call(std::string_view call) noexcept;

  /// The same for the calls of data paths, of which a program that polls makes any number, so that
  /// fail_nth_call() below does not count them.
  CallFaults on_data_path_call(std::string_view call) noexcept;

  /// on_call() for what can only fail: 0, or an errno, by the plan or by fail_nth_call() below.
  int fails(std::string_view call) noexcept { return on_call(call).error_number; }

  /// Counts one arrival at a step (kFaultSteps).
  void on_step(std::string_view step) noexcept;

  /// How many objects of a kind ("mr", "mw", "qp", "cq", "pd", "srq", "ah") may live in this
  /// process.
  [[nodiscard]] std::uint64_t limit_of(std::string_view object) const noexcept;

  /// For fail-the-n-th-call sweeps inside one process: the n-th call of fails() from now (0 = the
  /// next) returns `error_number`; a negative n switches it off. Returns how many calls were
  /// counted since the last such call.
  std::int64_t fail_nth_call(std::int64_t n, int error_number) noexcept;

  /// Every call of fails() by this name fails, until another name is given; null: none. The name
  /// must stay where it is.
  void fail_calls(const char* call, int error_number) noexcept;

  /// The same as fail_nth_call() for operations: `count` of them, from the n-th from now on (0 =
  /// the next), are refused with `error_number`.
  void refuse_operations(std::uint64_t n, std::uint64_t count, int error_number) noexcept;

 private:
  FaultPlan();

  static constexpr unsigned bit_of(FaultRule::Point point) {
    return 1U << static_cast<unsigned>(point);
  }

  [[nodiscard]] bool is_for(const FaultRule& rule, FaultRule::Point point,
                            std::string_view subject) const noexcept;
  bool acts(std::size_t index) noexcept;

  template <typename Do>
  void act(FaultRule::Point point, std::string_view subject, Do&& perform) noexcept;

  int planned_by_sweep(std::string_view call, int otherwise) noexcept;
  int refused() noexcept;

  static std::atomic<unsigned> planned_points_;

  std::vector<FaultRule> rules_;
  std::vector<FaultCounter*> counters_;  // one per rule
  std::string node_;
  std::atomic<std::int64_t> sweep_countdown_{-1};
  std::atomic<int> sweep_error_{0};
  std::atomic<std::int64_t> sweep_calls_{0};
  std::atomic<const char*> failing_call_{nullptr};
  std::atomic<int> failing_with_{0};
  std::atomic<std::uint64_t> operations_{0};  // counted since refuse_operations()
  std::atomic<std::uint64_t> refused_from_{0};
  std::atomic<std::uint64_t> refused_until_{0};
  std::atomic<int> refused_with_{0};
};

}  // namespace hbmwire::emulation
