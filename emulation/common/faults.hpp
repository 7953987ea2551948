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

/// A link failure, carried out by code that knows the port.
struct LinkFault {
  bool down = false;
  std::uint64_t for_ns = 0;  ///< 0: until it is brought up

  bool operator==(const LinkFault&) const = default;
};

/// The faults that the plan has for a request.
struct OperationFaults {
  int error_number = 0;  ///< the errno that refuses the request when it is posted; 0: none
  bool flip = false;
  std::uint64_t flip_byte = 0;  ///< modulo the payload's length
  bool drop = false;
  std::uint64_t delay_ns = 0;  ///< 0: none
  std::uint64_t late_ns = 0;   ///< 0: none
  bool revoke = false;         ///< the responder's region, before it is reached
  LinkFault link;              ///< for the requester's port

  bool operator==(const OperationFaults&) const = default;
};

/// The faults that the plan has for a call.
struct CallFaults {
  int error_number = 0;  ///< the errno that the call fails with; 0: none
  bool revoke = false;   ///< the region that the call registers
  LinkFault link;
};

/// The fault plan of this process. The whole fabric shares its counters. Constructed once, on first
/// use. Thread-safe.
class FaultPlan {
 public:
  /// The plan in HBMWIRE_EMULATION_FAULTS. Without a world or a plan it never acts. `hbmwire
  /// emulate` refuses a plan that does not parse; one that gets here anyway is ignored.
  static FaultPlan& of_this_process();

  /// Whether this process has a plan with rules for one of these kinds of point. This is the only
  /// cost for data paths without such rules.
  template <typename... Points>
  static bool plans(Points... points) noexcept {
    return (planned_points_.load(std::memory_order_relaxed) & (bit_of(points) | ...)) != 0;
  }

  /// Makes plans(step) true from now on, because StepTrap needs the steps too.
  static void watch_steps() noexcept {
    planned_points_.fetch_or(bit_of(FaultRule::Point::step), std::memory_order_relaxed);
  }

  [[nodiscard]] bool empty() const noexcept { return rules_.empty(); }

  /// Counts a request of operation `op` ("send", "write", "read", "atomic"). Called once for each
  /// request, when it is posted; the result is kept with the request. Rules that kill or stop act
  /// here.
  OperationFaults on_operation(std::string_view op) noexcept;

  /// Counts a call. Rules that kill or stop act here.
  CallFaults on_call(std::string_view call) noexcept;

  /// As on_call(), for calls of data paths. fail_nth_call() does not count these, because the
  /// number of polls is arbitrary.
  CallFaults on_data_path_call(std::string_view call) noexcept;

  /// As on_call(), for a call that can only fail. Returns 0, or an errno from the plan or
  /// fail_nth_call().
  int fails(std::string_view call) noexcept { return on_call(call).error_number; }

  /// Counts an arrival at a step (kFaultSteps).
  void on_step(std::string_view step) noexcept;

  /// The most objects of a kind ("mr", "mw", "qp", "cq", "pd", "srq", "ah") that this process may
  /// have.
  [[nodiscard]] std::uint64_t limit_of(std::string_view object) const noexcept;

  /// For fail-the-n-th-call sweeps in one process: makes the n-th call of fails() from now (0 = the
  /// next) return `error_number`. A negative n switches it off. Returns the number of calls counted
  /// since the last call of this function.
  std::int64_t fail_nth_call(std::int64_t n, int error_number) noexcept;

  /// Makes every call of fails() with this name fail, until another name is given; null: none. The
  /// string must stay valid.
  void fail_calls(const char* call, int error_number) noexcept;

  /// Refuses `count` operations with `error_number`, from the n-th (0 = the next) on.
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

  /// Counts a call for fail_nth_call(). Returns the errno that fail_nth_call() or fail_calls() has
  /// for it, or `otherwise`.
  int planned_by_sweep(std::string_view call, int otherwise) noexcept;
  /// Counts an operation for refuse_operations(). Returns the errno that refuses it, or 0.
  int planned_refusal() noexcept;

  static std::atomic<unsigned> planned_points_;

  std::vector<FaultRule> rules_;
  std::vector<FaultCounter*> counters_;  // one for each rule
  std::string node_;
  std::atomic<std::int64_t> sweep_countdown_{-1};
  std::atomic<int> sweep_error_{0};
  std::atomic<std::int64_t> sweep_calls_{0};
  std::atomic<const char*> failing_call_{nullptr};
  std::atomic<int> failing_with_{0};
  std::atomic<std::uint64_t> operations_{0};  // counted since the last refuse_operations()
  std::atomic<std::uint64_t> refused_from_{0};
  std::atomic<std::uint64_t> refused_until_{0};
  std::atomic<int> refused_with_{0};
};

}  // namespace hbmwire::emulation
