// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hbmwire::emulation {

/// Steps inside the NIC at which a process may be killed or stopped (`at=`), in the order in which
/// a request or an object meets them.
inline constexpr std::array<std::string_view, 17> kFaultSteps{
    "post",              // the request is checked and has its place in the send queue
    "located",           // the responder's queue pair was found
    "responder_locked",  // and is held
    "receive_taken",     // a receive was taken for the message
    "half_moved",        // some bytes of the message lie where they belong, and some do not
    "moved",             // all do
    "completing",        // a completion is in its ring, and not yet there for pollers
    "published",         // pollers see it, and the ring's tail is before it
    "completed",         // it is behind, and the receive that it ends is not consumed yet
    "event_written",     // an event is in its channel, and not yet counted
    "failing",           // a queue pair is in ERR, and nothing of it is flushed yet
    "claimed",           // an object's record is taken, and not yet filled in
    "released",          // what an object held is given back, and its record not yet
    "reaping",           // so it is with all that a dead process held
    "ousting",           // a lock is taken from the thread that it favours, which may be inside
    "cm_locked",         // the connection manager's tables are held
    "cm_telling",        // an end of a connection has changed; its event is next, or is queued
};

/// One rule of a fault plan. A plan is rules separated by ';', a rule is an action and settings
/// separated by ','; emulation/docs/emulate.md has an example of each:
///
///     flip,op=write,nth=3,byte=100
///     fail,call=ibv_reg_dmabuf_mr,every=2,errno=12
///     kill,at=responder_locked,nth=5
///     seed=7;drop,op=send,p=0.01
///
/// A rule counts its matches over the whole fabric (every process under the plan shares the
/// counters) and acts on some of them.
struct FaultRule {
  enum class Action : std::uint8_t {
    fail,    ///< the call fails with `error_number`; of an operation: its request is refused
    flip,    ///< the lowest bit of byte `byte` of the payload arrives flipped
    drop,    ///< the message is lost on the wire
    delay,   ///< it arrives and completes `time_ns` later
    late,    ///< it stays in the network for `time_ns`, while its sender's time runs
    revoke,  ///< the region that it reaches is revoked; of a call: the region that this one made
    limit,   ///< no more than `count` of the objects `subject` live in a process
    link,    ///< the port's link goes down, for `time_ns` (0: until it is brought up)
    kill,    ///< SIGKILL to the process
    stop,    ///< SIGSTOP to the process, for `time_ns` (0: until somebody continues it)
  };
  enum class Point : std::uint8_t { operation, call, step, creation };  ///< what a rule counts

  static constexpr std::uint64_t kCertain = 1'000'000'000;

  Action action = Action::flip;
  Point point = Point::operation;
  std::string subject;       ///< `op=` (empty: any), `call=`, `at=` or `object=`
  std::string node;          ///< `node=`: only in processes of that node; empty: in all
  std::uint64_t nth = 1;     ///< the first match that it may act on
  std::uint64_t every = 0;   ///< from there on each so-manyth; 0: see period()
  std::uint64_t count = 0;   ///< how often it acts, 0: see most_acts(); of `limit`: objects
  std::uint64_t chance = 0;  ///< `p=`, in units of 1e-9; 0: not given
  std::uint64_t seed = 1;    ///< of the plan: which of the matches `p` takes
  std::uint64_t byte = 0;    ///< flip: offset in the message's payload, modulo its length
  int error_number = 5;      ///< fail: errno of the failing call or post (default EIO)
  std::uint64_t time_ns = 0;

  /// With neither `every`, `count` nor `p` a rule acts on the n-th match alone.
  [[nodiscard]] bool acts_once() const noexcept { return every == 0 && count == 0 && chance == 0; }

  [[nodiscard]] std::uint64_t period() const noexcept { return every == 0 ? 1 : every; }

  [[nodiscard]] std::uint64_t most_acts() const noexcept {
    if (acts_once()) return 1;
    return count == 0 ? UINT64_MAX : count;
  }

  bool operator==(const FaultRule&) const = default;
};

/// Parses a plan. On failure `error` says which part is wrong and what is accepted, and `rules` is
/// empty. Blanks around parts and empty rules are ignored; of several seeds the last counts.
bool parse_fault_plan(std::string_view text, std::vector<FaultRule>& rules, std::string& error);

}  // namespace hbmwire::emulation
