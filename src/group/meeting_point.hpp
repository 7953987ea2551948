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

/// The place where the ranks of a group meet, and through which they exchange bytes. It is in rank
/// 0's process, and has a thread of its own, so that ranks meet, and learn of those that have gone,
/// while rank 0 computes. Each rank has a channel to it, rank 0 as well.
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
    std::optional<wire::Join> join;    // set while it waits for all others to join
    std::optional<wire::Give> give;    // set while it waits for all others in a call
    Ranks told_missing;                // in the last Missing since it began to wait
  };

  /// A channel that is to be closed when all that was said on it has been taken.
  struct Parting {
    std::unique_ptr<Channel> channel;
    Clock::time_point until;
  };

  MeetingPoint(std::uint32_t size, GroupControl control, std::unique_ptr<MeetingPlace> place);

  void run() noexcept;
  /// Does all that can be done now, without waiting.
  void turn();
  /// The end: lets ranks take their last messages, and says goodbye.
  void finish() noexcept;
  void accept();
  /// Gives a new channel the seat of its rank, or refuses it.
  void seat(std::unique_ptr<Channel> channel);
  [[nodiscard]] std::optional<std::uint32_t> free_rank() const noexcept;
  void take_messages();
  /// Handles the messages of a rank; loses it if its channel is over.
  void hear(std::uint32_t rank);
  void handle(std::uint32_t rank, wire::GroupMessage message);
  void join(std::uint32_t rank, wire::Join message);
  void give(std::uint32_t rank, wire::Give message);
  void begin_epoch();
  void complete();
  void answer_call();
  void give_up_late();
  /// The rank has gone: empties its seat. tell_gone() then tells the others.
  void lose(std::uint32_t rank);
  void tell_gone();
  void tell_missing();
  void refuse(std::unique_ptr<Channel> channel, wire::Refused::Why why);
  /// Leaves the channel to let_part(), which closes it when the peer has taken all messages.
  void part(std::unique_ptr<Channel> channel);
  void let_part(Clock::time_point now);
  void keep_place(Clock::time_point now);
  /// The ranks for which others wait, in a meeting or a call.
  [[nodiscard]] Ranks missing() const;
  /// When turn() has to be called next, if no message comes before.
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
  std::optional<Clock::time_point> patience_;  // until when rank 0 waits for others in its call
  Clock::time_point tell_next_{};
  Clock::time_point keep_next_{};
  bool place_failed_ = false;  // the last keep_place() failed, and that was logged
  Fd stop_;
  std::thread thread_;
};

}  // namespace hbmwire::detail
