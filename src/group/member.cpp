// SPDX-License-Identifier: MIT
#include "group/member.hpp"

#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "hbmwire/pending.hpp"

#include "base/guarded.hpp"
#include "base/log.hpp"
#include "group/ranks.hpp"

namespace hbmwire::detail {

namespace {

using namespace std::chrono_literals;

// Between looks for a meeting point that is not there yet.
constexpr auto kPause = 50ms;
// The time for asking a store once where the meeting point is.
constexpr auto kOneLook = 2s;
// The time for telling the meeting point that this rank leaves.
constexpr auto kLeave = 200ms;
// An exchange among those that are there ends by an answer when rank 0's deadline has passed. This
// rank's own deadline is about the same, so it waits for the answer a little longer.
constexpr auto kAnswer = 1s;

Wait at_most(const Wait& wait, std::chrono::milliseconds time) {
  return {Deadline(std::min(wait.deadline.when(), Deadline::later(Deadline::Clock::now(), time))),
          wait.cancel_fd};
}

/// Milliseconds from now on, rounded up; the largest number for a deadline that never passes.
std::uint32_t left_ms(const Deadline& deadline) noexcept {
  constexpr std::int64_t kMost = ~std::uint32_t{0};
  const auto now = Deadline::Clock::now();
  if (deadline.when() <= now) return 0;
  if (deadline.when() == Deadline::never().when()) return kMost;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.when() - now).count();
  return static_cast<std::uint32_t>(std::min<std::int64_t>(left, kMost));
}

bool is_readable(int fd) noexcept {
  if (fd < 0) return false;
  pollfd asked{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&asked, 1, 0) > 0;
}

/// Adds a descriptor to an epoll(7) set during its life.
class Watched {
 public:
  /// -1: none.
  Watched(int set, int fd) noexcept : set_(set), fd_(fd) {
    epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
    if (fd_ >= 0) added_ = ::epoll_ctl(set_, EPOLL_CTL_ADD, fd_, &event) == 0;
  }

  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

  ~Watched() {
    if (added_) ::epoll_ctl(set_, EPOLL_CTL_DEL, fd_, nullptr);
  }

 private:
  int set_;
  int fd_;
  bool added_ = false;
};

}  // namespace

Member::Member(Worker worker, GroupControl control)
    : worker_(std::move(worker)), control_(std::move(control)) {}

Result<std::unique_ptr<Member>> Member::create(const Worker& worker,
                                               const EndpointOptions& options) {
  HBMWIRE_TRY_ASSIGN(GroupControl control, GroupControl::create(options));
  std::unique_ptr<Member> member(new Member(worker, std::move(control)));
  member->wakes_ = Fd{::epoll_create1(EPOLL_CLOEXEC)};
  if (!member->wakes_)
    return tl::make_unexpected(system_error(Stage::open, "epoll_create1", errno));
  epoll_event event{.events = EPOLLIN, .data = {.fd = member->control_.worker.fd()}};
  if (::epoll_ctl(member->wakes_.get(), EPOLL_CTL_ADD, event.data.fd, &event) != 0)
    return tl::make_unexpected(system_error(Stage::open, "epoll_ctl", errno));
  return member;
}

Member::~Member() {
  if (!channel_ || channel_->over()) return;
  static_cast<void>(guarded(Stage::complete, [&] { return channel_->say(wire::Leave{}); }));
  channel_->close(kLeave);
  const Deadline until = Deadline::after(kLeave);
  while (!channel_->over() && !until.passed()) {
    while (control_.worker.next_message()) continue;
    static_cast<void>(control_.worker.wait({until, -1}));
  }
}

bool Member::may_pass(const Error& why) noexcept {
  switch (why.code) {
    case Errc::permission_denied:
    case Errc::protocol:
    case Errc::invalid_argument:
    case Errc::not_supported:
    case Errc::cancelled:
      return false;
    default:
      return true;
  }
}

// --- waiting

Result<void> Member::drive(const Wait& wait, const std::function<bool()>& is_over) {
  WorkerState& worker = state_of(worker_);
  // The program's descriptor ends sleeps, too.
  const Watched watched(wakes_.get(), wait.cancel_fd);
  while (true) {
    listen();
    worker_.progress();
    if (is_over()) return {};
    if (is_readable(wait.cancel_fd))
      return tl::make_unexpected(
          make_error(Errc::cancelled, Stage::complete, "waiting for the group"));
    if (wait.deadline.passed())
      return tl::make_unexpected(
          make_error(Errc::timed_out, Stage::complete, "waiting for the group"));
    HBMWIRE_TRY_ASSIGN(const bool may_sleep, control_.worker.arm());
    if (!may_sleep) continue;
    // A descriptor of wakes_ that is ready, or the end of the time, ends the sleep without an
    // error.
    const Wait sleep{at_most(wait, control_.worker.wake_after()).deadline, wakes_.get()};
    const WorkerLock lock(worker);
    HBMWIRE_TRY(worker.drive_until(sleep, is_over));
  }
}

void Member::listen() {
  control_.worker.progress();
  while (auto message = control_.worker.next_message()) {
    if (channel_ && channel_->id() == message->endpoint_id()) channel_->take(std::move(*message));
  }
  control_.tidy();
  if (!channel_) return;
  static_cast<void>(channel_->all_taken());  // for its effect: frees messages
  while (auto message = channel_->hear()) hear(std::move(*message));
}

void Member::hear(wire::GroupMessage message) {
  if (auto* const joined = std::get_if<wire::Joined>(&message)) {
    rank_ = joined->rank;
    call_ = 0;
    gone_.clear();
    joined_ = std::move(*joined);
  } else if (auto* const missing = std::get_if<wire::Missing>(&message)) {
    missing_ = std::move(missing->ranks);
  } else if (auto* const given = std::get_if<wire::Given>(&message)) {
    if (given->call == call_) given_ = std::move(*given);  // other calls were given up
  } else if (auto* const gone = std::get_if<wire::Gone>(&message)) {
    gone_ = std::move(gone->ranks);
    given_up_ = is_gone(rank_);
  } else if (const auto* const refused = std::get_if<wire::Refused>(&message)) {
    refused_ = *refused;
  }
}

bool Member::is_cut_off() const noexcept { return !channel_ || channel_->over(); }

bool Member::is_gone(std::uint32_t rank) const noexcept {
  return std::ranges::binary_search(gone_, rank);
}

const Member::Ranks& Member::gone() {
  listen();
  // The meeting point is in rank 0's process.
  if (is_cut_off() && !is_gone(0)) gone_.insert(gone_.begin(), 0);
  return gone_;
}

// --- errors

Error Member::gone_error(Stage stage, const Ranks& ranks) {
  return make_error(Errc::peer_failed, stage, "ranks of the group have ended", rank_text(ranks),
                    Hint::group_rank_gone);
}

/// The error of a wait that ended because of `why`. It names the ranks that did not come.
Error Member::late(Stage stage, const Error& why) const {
  if (why.code != Errc::timed_out) {
    Error error = why;
    error.stage = stage;
    return error;
  }
  if (taken_) return refusal(stage, wire::Refused::Why::rank_taken);
  Ranks ranks = missing_;
  std::erase(ranks, rank_);
  if (ranks.empty()) ranks = {0};
  return make_error(Errc::timed_out, stage, "ranks of the group did not come in time",
                    rank_text(ranks), Hint::group_rank_late);
}

Error Member::refusal(Stage stage, wire::Refused::Why why) {
  const auto because = [&](Errc code, const char* text) {
    return make_error(code, stage, text, {}, Hint::group_no_agreement);
  };
  switch (why) {
    case wire::Refused::Why::other_size:
      return because(Errc::protocol, "the ranks do not agree on the group's size");
    case wire::Refused::Why::rank_taken:
      return because(Errc::busy, "another process has this rank of the group");
    case wire::Refused::Why::full:
      return because(Errc::busy, "all ranks of the group are taken");
    case wire::Refused::Why::out_of_turn:
      return because(Errc::protocol, "the ranks are in different calls of the group");
    case wire::Refused::Why::too_much:
      return because(Errc::invalid_argument, "an exchange has 256 MiB at most");
  }
  return because(Errc::protocol, "the meeting point refuses this rank");
}

// --- meeting

Result<wire::Joined> Member::meet(const wire::GroupHello& hello, const wire::Join& join,
                                  const Look& look, const Wait& wait) {
  rank_ = hello.rank.value_or(kNoRank);
  missing_.clear();
  joined_.reset();
  given_up_ = false;
  taken_ = false;
  while (true) {
    refused_.reset();
    if (is_cut_off()) HBMWIRE_TRY(dial(hello, look, wait));
    HBMWIRE_TRY(join_once(join, wait));
    taken_ = refused_ && refused_->why == wire::Refused::Why::rank_taken;
    if (joined_) return std::move(*joined_);
    // A taken rank is asked for again: the meeting point may not know yet that this rank's previous
    // process has ended.
    if (refused_ && !taken_) return tl::make_unexpected(refusal(Stage::connect, refused_->why));
    forget_meeting_point();
    // Always an error, as the condition is never true: the time has passed, or `wait` is cancelled.
    const auto paused = drive(at_most(wait, kPause), [] { return false; });
    if (paused.error().code == Errc::cancelled) return tl::make_unexpected(paused.error());
    if (wait.deadline.passed()) return tl::make_unexpected(late(Stage::connect, paused.error()));
  }
}

/// Drops the channel of a rank that is cut off, and leaves in missing_ the ranks for late() to
/// name: rank 0, which is not there any more, and those that it missed. If rank 0 said goodbye, its
/// deadline had passed, and they are still missing. If it broke off, they may have come since.
void Member::forget_meeting_point() {
  if (!channel_->has_said_goodbye()) missing_.clear();
  if (!missing_.empty() && missing_.front() != 0) missing_.insert(missing_.begin(), 0);
  channel_.reset();
}

/// Waits until all have joined, this rank was refused, or the channel has ended.
Result<void> Member::join_once(const wire::Join& join, const Wait& wait) {
  if (const auto said = channel_->say(join); !said) return {};  // the channel has ended
  const auto driven = drive(wait, [&] { return joined_ || refused_ || is_cut_off(); });
  if (!driven) return tl::make_unexpected(late(Stage::connect, driven.error()));
  return {};
}

Result<void> Member::dial(const wire::GroupHello& hello, const Look& look, const Wait& wait) {
  channel_.reset();
  while (true) {
    auto addresses = look(at_most(wait, kOneLook));
    std::optional<Error> place_failed;
    if (!addresses) {
      if (!may_pass(addresses.error())) return tl::make_unexpected(addresses.error());
      place_failed = addresses.error();
      addresses = std::vector<std::string>{};
    }
    for (const std::string& address : *addresses) {
      const bool only = addresses->size() == 1;  // a single address gets all the time
      HBMWIRE_TRY_ASSIGN(const bool connected,
                         dial_one(address, hello, only ? wait : at_most(wait, kOneAddress)));
      if (connected) return {};
    }
    const auto paused = drive(at_most(wait, kPause), [] { return false; });
    if (paused.error().code == Errc::cancelled) return tl::make_unexpected(paused.error());
    if (!wait.deadline.passed()) {
      taken_ = false;  // rank 0, which said so, is not there any more
      continue;
    }
    // If the store did not answer, that is the error: it is not known that rank 0 is late.
    return tl::make_unexpected(place_failed ? *place_failed : late(Stage::connect, paused.error()));
  }
}

/// False: it may be tried again.
Result<bool> Member::dial_one(const std::string& address, const wire::GroupHello& hello,
                              const Wait& wait) {
  EndpointOptions options = control_.options;
  options.hello = wire::encode(hello);
  HBMWIRE_TRY_ASSIGN(PendingEndpoint pending,
                     Endpoint::start_connect(control_.worker, address, wait.deadline, options));
  const auto driven = drive(wait, [&] { return pending.transfer().done(); });
  if (!driven && driven.error().code == Errc::cancelled) return tl::make_unexpected(driven.error());
  if (!driven) return false;
  auto endpoint = pending.take();
  if (endpoint) {
    channel_ =
        std::make_unique<Channel>(control_, std::move(*endpoint), wire::kMostFromMeetingPoint);
    return true;
  }
  if (!may_pass(endpoint.error())) return tl::make_unexpected(endpoint.error());
  log_line(LogLevel::debug, [&] { return "the meeting point: " + describe(endpoint.error()); });
  return false;
}

// --- exchanging

Result<wire::Given> Member::exchange(std::span<const std::byte> mine, bool among_present,
                                     const Wait& wait) {
  constexpr Stage kStage = Stage::complete;
  listen();
  ++call_;
  given_.reset();
  refused_.reset();
  missing_.clear();
  // An exchange goes on without ranks that have gone only if the caller allows it, if this rank is
  // still in, and as long as rank 0 has the meeting point.
  const Ranks known = given_up_ ? Ranks{rank_} : gone();
  const bool can_go_on = among_present && !given_up_ && !is_gone(0);
  if (!known.empty() && !can_go_on) return tl::make_unexpected(gone_error(kStage, known));
  wire::Give give{.call = call_,
                  .among_present = among_present,
                  .patience_ms = left_ms(wait.deadline),
                  .bytes = {}};
  give.bytes.assign(mine.begin(), mine.end());
  HBMWIRE_TRY(channel_->say(give));
  const Deadline last(among_present ? Deadline::later(wait.deadline.when(), kAnswer)
                                    : wait.deadline.when());
  const Wait answer_wait{last, wait.cancel_fd};
  // Drives until there is an answer, or until none can come any more.
  const auto driven = drive(answer_wait, [&] {
    return given_ || refused_ || given_up_ || (!among_present && !gone_.empty()) || is_cut_off();
  });
  if (given_) return std::move(*given_);
  if (refused_) return tl::make_unexpected(refusal(kStage, refused_->why));
  if (!driven) return tl::make_unexpected(late(kStage, driven.error()));
  return tl::make_unexpected(gone_error(kStage, given_up_ ? Ranks{rank_} : gone()));
}

}  // namespace hbmwire::detail
