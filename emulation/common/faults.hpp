// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace hbmwire::emulation {

/// One rule of a fault plan. A plan is rules separated by ';', a rule is an action and settings
/// separated by ',':
///
///     flip,op=write,nth=1,byte=100          flip the lowest bit of byte 100 of the first WRITE's
///     payload flip,op=send,nth=2,node=b             only operations posted by processes of node b
///     count fail,call=ibv_reg_dmabuf_mr,nth=1,errno=12
///
/// `nth` counts from 1 over the whole fabric (every process under the plan shares the counters); a
/// rule acts once.
struct FaultRule {
  enum class Action : std::uint8_t { flip, fail };

  Action action = Action::flip;
  std::string subject;     ///< `op=` of a flip (send, write, read; empty: any), `call=` of a fail
  std::string node;        ///< `node=`: only in processes of that node; empty: in all
  std::uint64_t nth = 1;   ///< acts on the n-th match
  std::uint64_t byte = 0;  ///< flip: offset within the message's payload, modulo its length
  int error_number = 5;    ///< fail: errno of the failing call (default EIO)

  bool operator==(const FaultRule&) const = default;
};

/// Parses a plan. On failure `error` says which part is wrong and what is accepted, and `rules` is
/// empty. Blanks around parts and empty rules are ignored. A rule without nth, byte or errno has
/// the defaults of FaultRule; `fail` needs a call.
bool parse_fault_plan(std::string_view text, std::vector<FaultRule>& rules, std::string& error);

/// The plan of this process, its counters shared by the fabric. Constructed once, on first use;
/// thread-safe.
class FaultPlan {
 public:
  /// The plan in HBMWIRE_EMULATION_FAULTS; without a world or a plan it never acts. A plan that
  /// does not parse was already refused by `hbmwire emulate`; should one get here all the same, it
  /// is ignored.
  static FaultPlan& of_this_process();

  [[nodiscard]] bool empty() const noexcept { return rules_.empty(); }

  /// Counts one operation `op` ("send", "write", "read"). True when a rule flips a byte of it,
  /// which `byte` then names.
  bool flips(std::string_view op, std::uint64_t& byte) noexcept;

  /// Counts one call. 0, or the errno it is to fail with: by the plan, or by fail_nth_call() below.
  int fails(std::string_view call) noexcept;

  /// For fail-the-n-th-call sweeps inside one process: the n-th call of fails() from now (0 = the
  /// next) returns `error_number`; a negative n switches it off. Returns how many calls were
  /// counted since the last such call.
  std::int64_t fail_nth_call(std::int64_t n, int error_number) noexcept;

 private:
  FaultPlan();
  bool counts_to_nth(std::size_t index, FaultRule::Action action,
                     std::string_view subject) noexcept;

  std::vector<FaultRule> rules_;
  std::vector<std::atomic<std::uint64_t>*> counters_;  // one per rule, in <fabric>/faults, shared
  std::string node_;
  std::atomic<std::int64_t> sweep_countdown_{-1};
  std::atomic<int> sweep_error_{0};
  std::atomic<std::int64_t> sweep_calls_{0};
};

}  // namespace hbmwire::emulation
