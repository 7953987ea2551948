// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hbmwire::emulation {

/// Steps inside the NIC at which a process may be killed or stopped (`at=`), in the order in which
/// a request or an object reaches them.
inline constexpr std::array<std::string_view, 17> kFaultSteps{
    "post",              // the request is checked and has its place in the send queue
    "located",           // the responder's queue pair was found
    "responder_locked",  // the responder's queue pair is locked
    "receive_taken",     // a receive was taken for the message
    "half_moved",        // some bytes of the message are in place, others are not
    "moved",             // all bytes are in place
    "completing",        // a completion is in its ring, but pollers do not see it yet
    "published",         // pollers see it, but the ring's tail has not moved yet
    "completed",         // the tail has moved, but the receive is not consumed yet
    "event_written",     // an event is in its channel, but not counted yet
    "failing",           // a queue pair is in ERR, but nothing is flushed yet
    "claimed",           // an object's record is taken, but not filled in yet
    "released",          // an object's resources are freed, but its record is not
    "reaping",           // a dead process' resources are freed, but its slot is not
    "ousting",           // a lock is taken from its favourite, which may be inside
    "cm_locked",         // the connection manager's tables are locked
    "cm_telling",        // an end of a connection has changed; its event is queued, or not yet
};

/// A rule of a fault plan. A plan is a list of rules separated by ';'. A rule is an action and its
/// settings, separated by ','. emulation/docs/emulate.md has an example of each:
///
///     flip,op=write,nth=3,byte=100
///     fail,call=ibv_reg_dmabuf_mr,every=2,errno=12
///     kill,at=responder_locked,nth=5
///     seed=7;drop,op=send,p=0.01
///
/// A rule counts its matches in the whole fabric, because all processes under the plan share its
/// counters. It acts on some of the matches.
struct FaultRule {
  enum class Action : std::uint8_t {
    fail,    ///< a call fails with `error_number`; a request is refused with it
    flip,    ///< the lowest bit of byte `byte` of the payload arrives flipped
    drop,    ///< the message is lost on the wire
    delay,   ///< it arrives and completes `time_ns` later
    late,    ///< it stays in the network for `time_ns`, while its sender's timeout runs
    revoke,  ///< revokes the region that it reaches; for a call the region that the call has
             ///< registered
    limit,   ///< a process may have at most `count` of the objects `subject`
    link,    ///< the port's link goes down for `time_ns` (0: until it is brought up)
    kill,    ///< SIGKILL to the process
    stop,    ///< SIGSTOP to the process, for `time_ns` (0: until it is continued)
  };
  /// The things that a rule can count.
  enum class Point : std::uint8_t { operation, call, step, creation };

  static constexpr std::uint64_t kCertain = 1'000'000'000;

  Action action = Action::flip;
  Point point = Point::operation;
  std::string subject;       ///< `op=` (empty: any), `call=`, `at=` or `object=`
  std::string node;          ///< `node=`: only in processes of that node; empty: in all
  std::uint64_t nth = 1;     ///< the first match that it may act on
  std::uint64_t every = 0;   ///< from there on it acts on every so many matches; 0: see period()
  std::uint64_t count = 0;   ///< how often it acts; 0: see most_acts(). For `limit`: objects
  std::uint64_t chance = 0;  ///< `p=`, in units of 1e-9; 0: not given
  std::uint64_t seed = 1;    ///< of the plan: decides which of the matches `p` selects
  std::uint64_t byte = 0;    ///< flip: offset in the message's payload, modulo its length
  int error_number = 5;      ///< fail: errno of the failing call or post (default EIO)
  std::uint64_t time_ns = 0;

  /// Without `every`, `count` and `p` a rule acts only on the n-th match.
  [[nodiscard]] bool acts_once() const noexcept { return every == 0 && count == 0 && chance == 0; }

  [[nodiscard]] std::uint64_t period() const noexcept { return every == 0 ? 1 : every; }

  [[nodiscard]] std::uint64_t most_acts() const noexcept {
    if (acts_once()) return 1;
    return count == 0 ? UINT64_MAX : count;
  }

  bool operator==(const FaultRule&) const = default;
};

/// Parses a plan. On failure `error` says which part is wrong and which values are accepted, and
/// `rules` is empty. Ignores blanks around parts and empty rules. If there are several seeds, the
/// last one counts.
bool parse_fault_plan(std::string_view text, std::vector<FaultRule>& rules, std::string& error);

}  // namespace hbmwire::emulation
