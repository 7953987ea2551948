// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "hbmwire/endpoint.hpp"
#include "hbmwire/fd.hpp"

#include "group/channel.hpp"
#include "group/meeting_place.hpp"
#include "wire/group_messages.hpp"

namespace hbmwire::detail {

/// Where the ranks of a group meet, and pass all that they exchange: rank 0's process has it, with
/// a thread of its own, so that ranks meet, and learn of those that have gone, while rank 0
/// computes. Each rank, rank 0 as well, has a channel to it.
class MeetingPoint {
 public:
  /// Listens, leaves its addresses at `place`, and starts the thread. Errors: as Group::create().
  static Result<std::unique_ptr<MeetingPoint>> start(std::uint32_t size,
                                                     const GroupOptions& options,
                                                     std::unique_ptr<MeetingPlace> place,
                                                     const Wait& wait);

  MeetingPoint(const MeetingPoint&) = delete;
  MeetingPoint& operator=(const MeetingPoint&) = delete;

  /// Ends when the ranks have taken what was told them, after some seconds at most.
  ~MeetingPoint();

  /// Where rank 0 itself connects to it.
  [[nodiscard]] const std::string& address() const noexcept { return address_; }

 private:
  using Clock = std::chrono::steady_clock;
  using Ranks = std::vector<std::uint32_t>;

  /// A rank, as far as it is known.
  struct Seat {
    std::unique_ptr<Channel> channel;  // null: no process has the rank
    bool in_epoch = false;             // it has heard Joined, and has not gone since
    std::optional<wire::Join> join;    // it waits for all others
    std::optional<wire::Give> give;    // likewise, in a call
    Ranks told_missing;                // last, since it waits
  };

  /// A channel that is to be closed when all that was said on it has been taken.
  struct Parting {
    std::unique_ptr<Channel> channel;
    Clock::time_point until;
  };

  MeetingPoint(std::uint32_t size, GroupControl control, std::unique_ptr<MeetingPlace> place);

  void run() noexcept;
  void turn();
  void finish() noexcept;
  void accept();
  void seat(std::unique_ptr<Channel> channel);
  [[nodiscard]] std::optional<std::uint32_t> free_rank() const noexcept;
  void take_messages();
  void hear(std::uint32_t rank);
  void handle(std::uint32_t rank, wire::GroupMessage message);
  void join(std::uint32_t rank, wire::Join message);
  void give(std::uint32_t rank, wire::Give message);
  void begin_epoch();
  void complete();
  void answer_call();
  void give_up_late();
  void lose(std::uint32_t rank);
  void tell_gone();
  void tell_missing();
  void refuse(std::unique_ptr<Channel> channel, wire::Refused::Why why);
  void part(std::unique_ptr<Channel> channel);
  void let_part(Clock::time_point now);
  void keep_place(Clock::time_point now);
  [[nodiscard]] Ranks missing() const;
  [[nodiscard]] Clock::time_point due() const noexcept;

  GroupControl control_;
  std::optional<Listener> listener_;
  std::unique_ptr<MeetingPlace> place_;
  std::string address_;
  std::vector<Seat> seats_;
  std::vector<Parting> parting_;
  std::uint32_t epoch_ = 0;
  std::set<std::uint32_t> gone_;               // of this epoch
  bool has_news_ = false;                      // gone_ has ranks that the others were not told of
  std::optional<Clock::time_point> patience_;  // of rank 0, in the call that it is in
  Clock::time_point tell_next_{};
  Clock::time_point keep_next_{};
  bool place_failed_ = false;  // when it was last to be kept
  Fd stop_;
  std::thread thread_;
};

}  // namespace hbmwire::detail
