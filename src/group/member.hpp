// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hbmwire/deadline.hpp"
#include "hbmwire/fd.hpp"

#include "base/internals.hpp"
#include "endpoint/worker_state.hpp"
#include "group/channel.hpp"
#include "wire/group_messages.hpp"

namespace hbmwire::detail {

/// A rank's side of the meeting point: joins, exchanges, and hears which ranks have gone. Calls
/// that wait drive the application's worker, too.
class Member {
 public:
  using Ranks = std::vector<std::uint32_t>;

  /// Finds the meeting point, as MeetingPlace::look() does: its addresses now; empty: none yet.
  using Look = std::function<Result<std::vector<std::string>>(const Wait&)>;

  /// How long one of several addresses has to answer.
  static constexpr std::chrono::seconds kOneAddress{1};

  /// Whether a later attempt may succeed where a connection failed because of `why`.
  [[nodiscard]] static bool may_pass(const Error& why) noexcept;

  /// `options`: of the endpoints between ranks. Errors: as GroupControl::create().
  static Result<std::unique_ptr<Member>> create(const Worker& worker,
                                                const EndpointOptions& options);

  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  /// Tells the meeting point that this rank leaves.
  ~Member();

  /// Connects to the meeting point unless it is connected, and waits until all ranks have joined.
  /// Errors: as Group::create().
  Result<wire::Joined> meet(const wire::GroupHello& hello, const wire::Join& join, const Look& look,
                            const Wait& wait);

  /// One call of an exchange. Errors: as Group::exchange(), exchange_among_present().
  Result<wire::Given> exchange(std::span<const std::byte> mine, bool among_present,
                               const Wait& wait);

  /// Takes what the meeting point has said, then returns the ranks that have gone, in their order.
  const Ranks& gone();

  [[nodiscard]] bool is_gone(std::uint32_t rank) const noexcept;

  /// The error that names ranks that have gone.
  [[nodiscard]] static Error gone_error(Stage stage, const Ranks& ranks);

  /// Drives both workers until `is_over()`, which may be asked more than once when it is true.
  /// Errors: Errc::timed_out, Errc::cancelled.
  Result<void> drive(const Wait& wait, const std::function<bool()>& is_over);

 private:
  static constexpr std::uint32_t kNoRank = ~std::uint32_t{0};

  Member(Worker worker, GroupControl control);

  /// Takes all messages of the meeting point that have come, by hear().
  void listen();
  void hear(wire::GroupMessage message);
  [[nodiscard]] bool is_cut_off() const noexcept;
  /// Connects to the meeting point; tries until the deadline.
  Result<void> dial(const wire::GroupHello& hello, const Look& look, const Wait& wait);
  Result<bool> dial_one(const std::string& address, const wire::GroupHello& hello,
                        const Wait& wait);
  void forget_meeting_point();
  Result<void> join_once(const wire::Join& join, const Wait& wait);
  [[nodiscard]] Error late(Stage stage, const Error& why) const;
  [[nodiscard]] static Error refusal(Stage stage, wire::Refused::Why why);

  Worker worker_;
  GroupControl control_;
  Fd wakes_;  // epoll(7): what ends a sleep of the application's worker
  std::unique_ptr<Channel> channel_;
  std::uint32_t rank_ = kNoRank;
  std::uint32_t call_ = 0;  // the number of this rank's last call in the epoch
  Ranks gone_;
  bool given_up_ = false;  // the others went on without this rank, which was late
  bool taken_ = false;     // rank 0 said last that another process has this rank
  Ranks missing_;          // in the call that this rank is in
  std::optional<wire::Joined> joined_;
  std::optional<wire::Given> given_;
  std::optional<wire::Refused> refused_;
};

}  // namespace hbmwire::detail
