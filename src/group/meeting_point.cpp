// SPDX-License-Identifier: MIT
#include "group/meeting_point.hpp"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "hbmwire/host_port.hpp"

#include "base/guarded.hpp"
#include "base/log.hpp"
#include "base/random.hpp"
#include "base/signals.hpp"
#include "base/thread_failure.hpp"

namespace hbmwire::detail {

namespace {

using namespace std::chrono_literals;

// The pause between two Missing messages. If a rank's own deadline passes, its error names the
// ranks in the last such message.
constexpr auto kBetweenMissing = 50ms;
// The time that a refused rank has to read the reason.
constexpr auto kParting = 2s;
// At the end: the time that ranks which wait have to take their last answer. Only ranks that are
// stopped need more.
constexpr auto kLastWords = 5s;
// At the end: ranks that compute do not answer a goodbye, and need not.
constexpr auto kGoodbye = 200ms;

}  // namespace

MeetingPoint::MeetingPoint(std::uint32_t size, GroupControl control,
                           std::unique_ptr<MeetingPlace> place)
    : control_(std::move(control)), place_(std::move(place)), seats_(size) {}

Result<std::unique_ptr<MeetingPoint>> MeetingPoint::start(std::uint32_t size,
                                                          const GroupOptions& options,
                                                          std::unique_ptr<MeetingPlace> place,
                                                          const Wait& wait) {
  HBMWIRE_TRY_ASSIGN(GroupControl control, GroupControl::create(options.endpoint));
  std::unique_ptr<MeetingPoint> point(new MeetingPoint(size, std::move(control), std::move(place)));
  point->stop_ = Fd{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  if (!point->stop_) return tl::make_unexpected(system_error(Stage::open, "eventfd", errno));
  const HostPort at = point->place_->listen_at();
  ListenerOptions listen;
  listen.address = at.host.empty() ? options.address : at.host;
  listen.port = at.port;
  listen.endpoint = point->control_.options;
  // All ranks come at once. Not below the default of 64.
  listen.max_handshakes = std::max<std::uint32_t>(64, size);
  HBMWIRE_TRY_ASSIGN(point->listener_, Listener::create(point->control_.worker, listen));
  // An empty address stands for all, of which rank 0 itself takes the loopback one.
  const std::string host = listen.address.empty() ? "127.0.0.1" : listen.address;
  point->address_ = join_host_port(host, point->listener_->port());
  HBMWIRE_TRY_ASSIGN(const auto addresses, point->listener_->addresses());
  HBMWIRE_TRY(point->place_->leave(addresses, wait));
  if (const auto every = point->place_->keep_every()) point->keep_next_ = Clock::now() + *every;
  try {
    const SignalsBlocked blocked;
    point->thread_ = std::thread([raw = point.get()] { raw->run(); });
  } catch (const std::system_error& error) {
    return tl::make_unexpected(
        thread_failure(Stage::open, error.code().value(), "a thread for the group"));
  }
  return point;
}

MeetingPoint::~MeetingPoint() {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  static_cast<void>(!::write(stop_.get(), &one, sizeof one));
  thread_.join();
}

void MeetingPoint::run() noexcept {
  static_cast<void>(::pthread_setname_np(::pthread_self(), "hbmwire-group"));
  for (bool stopping = false; !stopping;) {
    const auto turned = guarded(Stage::complete, [&]() -> Result<void> {
      turn();
      return {};
    });
    // Without memory it tries again: ranks that wait for it have their own deadlines.
    const auto until = turned ? Deadline(due()) : Deadline::after(kBetweenMissing);
    const auto waited = control_.worker.wait({until, stop_.get()});
    stopping = !waited && waited.error().code == Errc::cancelled;
  }
  finish();
}

void MeetingPoint::turn() {
  accept();
  take_messages();
  for (std::uint32_t rank = 0; rank < seats_.size(); ++rank) hear(rank);
  give_up_late();
  tell_gone();
  complete();
  const auto now = Clock::now();
  if (now >= tell_next_) tell_missing();
  let_part(now);
  keep_place(now);
  control_.tidy();
}

void MeetingPoint::finish() noexcept {
  place_.reset();
  const auto last = Clock::now() + kLastWords;
  const auto wait_until = [&](Clock::time_point until, const auto& is_over) {
    while (Clock::now() < until && !std::ranges::all_of(seats_, [&](const Seat& seat) {
             return !seat.channel || seat.channel->over() || is_over(*seat.channel);
           })) {
      static_cast<void>(
          control_.worker.wait({Deadline(std::min(until, Clock::now() + kBetweenMissing)), -1}));
      while (control_.worker.next_message()) continue;  // dropped: no call is answered any more
    }
  };
  wait_until(last, [](Channel& channel) { return channel.all_taken(); });
  for (Seat& seat : seats_) {
    if (seat.channel) seat.channel->close(kGoodbye);
  }
  wait_until(Clock::now() + kGoodbye, [](Channel& channel) { return channel.over(); });
}

// --- who comes

void MeetingPoint::accept() {
  while (auto endpoint = listener_->try_accept()) {
    seat(std::make_unique<Channel>(control_, std::move(*endpoint), wire::kMostToMeetingPoint));
  }
}

void MeetingPoint::seat(std::unique_ptr<Channel> channel) {
  using Why = wire::Refused::Why;
  const auto hello = wire::decode_group_hello(channel->hello());
  // Without a hello of a group, it is another program, which would not understand a refusal.
  if (!hello) return part(std::move(channel));
  if (hello->size != seats_.size()) return refuse(std::move(channel), Why::other_size);
  const auto rank = hello->rank ? hello->rank : free_rank();
  if (!rank || *rank >= seats_.size()) return refuse(std::move(channel), Why::full);
  Seat& seat = seats_[*rank];
  if (seat.channel) {
    if (!seat.channel->over()) return refuse(std::move(channel), Why::rank_taken);
    lose(*rank);  // the rank's earlier process has ended
  }
  seat.channel = std::move(channel);
}

/// Rank 0 has the meeting point, and never asks for a rank.
std::optional<std::uint32_t> MeetingPoint::free_rank() const noexcept {
  for (std::uint32_t rank = 1; rank < seats_.size(); ++rank) {
    if (!seats_[rank].channel) return rank;
  }
  return std::nullopt;
}

void MeetingPoint::refuse(std::unique_ptr<Channel> channel, wire::Refused::Why why) {
  static_cast<void>(channel->say(wire::Refused{why}));
  part(std::move(channel));
}

void MeetingPoint::part(std::unique_ptr<Channel> channel) {
  parting_.push_back({std::move(channel), Clock::now() + kParting});
}

void MeetingPoint::let_part(Clock::time_point now) {
  for (const Parting& each : parting_) {
    if (each.channel->all_taken()) each.channel->close(kGoodbye);
  }
  std::erase_if(parting_,
                [&](const Parting& each) { return now > each.until || each.channel->over(); });
}

void MeetingPoint::keep_place(Clock::time_point now) {
  const auto every = place_->keep_every();
  if (!every || now < keep_next_) return;
  keep_next_ = now + *every;
  const auto kept = place_->keep();
  // A server that is down for an hour is reported once.
  const bool is_told = std::exchange(place_failed_, !kept);
  if (!kept && !is_told) log_line(LogLevel::warn, [&] { return describe(kept.error()); });
}

// --- what they say

void MeetingPoint::take_messages() {
  while (auto message = control_.worker.next_message()) {
    const auto of = std::ranges::find_if(seats_, [&](const Seat& seat) {
      return seat.channel && seat.channel->id() == message->endpoint_id();
    });
    if (of != seats_.end()) of->channel->take(std::move(*message));
  }
}

void MeetingPoint::hear(std::uint32_t rank) {
  Seat& seat = seats_[rank];
  while (seat.channel) {
    auto message = seat.channel->hear();
    if (!message) break;
    handle(rank, std::move(*message));
  }
  if (!seat.channel) return;
  static_cast<void>(seat.channel->all_taken());  // for its effect: frees messages
  if (seat.channel->over()) lose(rank);
}

void MeetingPoint::handle(std::uint32_t rank, wire::GroupMessage message) {
  if (auto* const joins = std::get_if<wire::Join>(&message)) return join(rank, std::move(*joins));
  if (auto* const gives = std::get_if<wire::Give>(&message)) return give(rank, std::move(*gives));
  // The rank leaves, or has sent a message that no rank may send.
  part(std::move(seats_[rank].channel));
  lose(rank);
}

void MeetingPoint::join(std::uint32_t rank, wire::Join message) {
  Seat& seat = seats_[rank];
  seat.give.reset();
  seat.join = std::move(message);
  seat.told_missing.clear();
  if (std::ranges::all_of(seats_, [](const Seat& each) { return each.join.has_value(); }))
    begin_epoch();
}

void MeetingPoint::begin_epoch() {
  // A meeting point that replaces an earlier one goes on from the ranks' last epoch.
  for (const Seat& seat : seats_) epoch_ = std::max(epoch_, seat.join->epoch);
  wire::Joined joined{.group = random_number(), .epoch = ++epoch_, .rank = 0, .members = {}};
  for (std::uint32_t rank = 0; rank < seats_.size(); ++rank) {
    joined.members.push_back(std::move(seats_[rank].join->member));
    joined.members.back().rank = rank;
  }
  gone_.clear();
  has_news_ = false;
  patience_.reset();
  for (Seat& seat : seats_) {
    seat.join.reset();
    seat.give.reset();
    seat.in_epoch = true;
  }
  for (std::uint32_t rank = 0; rank < seats_.size(); ++rank) {
    joined.rank = rank;
    static_cast<void>(seats_[rank].channel->say(joined));
  }
}

void MeetingPoint::give(std::uint32_t rank, wire::Give message) {
  Seat& seat = seats_[rank];
  if (!seat.in_epoch || seat.join) return;  // only ranks of the epoch are in calls
  if (rank == 0 && message.among_present)
    patience_ = Clock::now() + std::chrono::milliseconds(message.patience_ms);
  seat.give = std::move(message);
  seat.told_missing.clear();
}

/// Answers a call that all ranks are in, but for those that have gone.
void MeetingPoint::complete() {
  const auto is_in = [](const Seat& seat) { return !seat.in_epoch || seat.give.has_value(); };
  const bool any =
      std::ranges::any_of(seats_, [](const Seat& seat) { return seat.in_epoch && seat.give; });
  if (any && std::ranges::all_of(seats_, is_in)) answer_call();
}

/// Gives each rank the bytes of all. Refuses if their calls differ in number or kind, or if the
/// bytes are too many.
void MeetingPoint::answer_call() {
  patience_.reset();
  std::optional<std::pair<std::uint32_t, bool>> call;
  bool agree = true;
  std::size_t bytes = 0;
  for (const Seat& seat : seats_) {
    if (!seat.in_epoch) continue;
    const std::pair its(seat.give->call, seat.give->among_present);
    agree = agree && call.value_or(its) == its;
    call = its;
    bytes += seat.give->bytes.size();
  }
  const bool fits = bytes <= wire::kMostGroupBytes;
  wire::GroupMessage answer =
      wire::Refused{agree ? wire::Refused::Why::too_much : wire::Refused::Why::out_of_turn};
  if (agree && fits) {
    wire::Given given{.call = call->first, .bytes = {}};
    for (Seat& seat : seats_) {
      auto& part = given.bytes.emplace_back();
      if (seat.in_epoch) part = std::move(seat.give->bytes);
    }
    answer = std::move(given);
  }
  for (Seat& seat : seats_) seat.give.reset();
  const auto packed = control_.pack(answer);
  for (const Seat& seat : seats_) {
    if (seat.in_epoch && packed) static_cast<void>(seat.channel->say(*packed));
  }
  if (!packed) log_line(LogLevel::warn, [&] { return describe(packed.error()); });
}

// --- who goes

void MeetingPoint::lose(std::uint32_t rank) {
  Seat& seat = seats_[rank];
  seat.channel.reset();
  seat.join.reset();
  seat.give.reset();
  if (!std::exchange(seat.in_epoch, false)) return;
  gone_.insert(rank);
  has_news_ = true;
}

/// Called once a turn: if a rank ends because another one has, the others hear of both together.
void MeetingPoint::tell_gone() {
  // A rank in a call that needs all ranks gets Gone as its answer.
  const auto is_answered = [](const Seat& seat) { return seat.give && !seat.give->among_present; };
  if (gone_.empty() || (!has_news_ && std::ranges::none_of(seats_, is_answered))) return;
  const auto packed = control_.pack(wire::Gone{Ranks(gone_.begin(), gone_.end())});
  for (Seat& seat : seats_) {
    const bool wants_it = has_news_ || is_answered(seat);
    if (is_answered(seat)) seat.give.reset();
    if (seat.channel && seat.in_epoch && packed && wants_it)
      static_cast<void>(seat.channel->say(*packed));
  }
  has_news_ = false;
}

/// Leaves out the ranks that have not come to the call in the time that rank 0 gave.
void MeetingPoint::give_up_late() {
  if (!patience_ || Clock::now() < *patience_) return;
  patience_.reset();
  for (std::uint32_t rank = 0; rank < seats_.size(); ++rank) {
    Seat& seat = seats_[rank];
    if (!seat.in_epoch || seat.give) continue;
    gone_.insert(rank);
    has_news_ = true;
    // If its process goes on, it hears that it was given up.
    static_cast<void>(seat.channel->say(wire::Gone{{rank}}));
    seat.in_epoch = false;
    part(std::move(seat.channel));
  }
}

MeetingPoint::Ranks MeetingPoint::missing() const {
  const bool meets =
      std::ranges::any_of(seats_, [](const Seat& seat) { return seat.join.has_value(); });
  Ranks ranks;
  for (std::uint32_t rank = 0; rank < seats_.size(); ++rank) {
    const Seat& seat = seats_[rank];
    const bool lacks = meets ? !seat.join : seat.in_epoch && !seat.give;
    if (lacks) ranks.push_back(rank);
  }
  return ranks;
}

void MeetingPoint::tell_missing() {
  tell_next_ = Clock::now() + kBetweenMissing;
  const Ranks now_missing = missing();
  for (Seat& seat : seats_) {
    if (!seat.channel || (!seat.join && !seat.give) || seat.told_missing == now_missing) continue;
    seat.told_missing = now_missing;
    static_cast<void>(seat.channel->say(wire::Missing{now_missing}));
  }
}

MeetingPoint::Clock::time_point MeetingPoint::due() const noexcept {
  auto due = Clock::time_point::max();
  if (place_->keep_every()) due = std::min(due, keep_next_);
  if (patience_) due = std::min(due, *patience_);
  for (const Parting& each : parting_) due = std::min(due, each.until);
  const bool waits = std::ranges::any_of(
      seats_, [](const Seat& seat) { return seat.join.has_value() || seat.give.has_value(); });
  if (waits) due = std::min(due, tell_next_);
  return due;
}

}  // namespace hbmwire::detail
