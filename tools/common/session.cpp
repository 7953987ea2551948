// SPDX-License-Identifier: MIT
#include "tools/common/session.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "hbmwire/low_level/connection.hpp"
#include "hbmwire/settings.hpp"

#include "tools/common/interrupt.hpp"

namespace hbmwire::tools {
namespace {

using std::chrono::milliseconds;

// Messages have at most 1 GiB, so that progress is visible, and no transfer of one message takes
// longer than the peer's patience.
constexpr std::uint64_t kLargestPieceBytes = std::uint64_t{1} << 30;
constexpr std::uint64_t kSmallestDepth = 16;
constexpr std::uint64_t kLargestDepth = 4096;  // below every NIC's max_qp_wr
// The interval at which a busy side sends signs of life: well below the smallest patience, 1 s.
constexpr auto kTickInterval = milliseconds(400);
// More messages than a correct peer can ever be ahead. A flood must not fill this side's memory.
constexpr std::size_t kLargestInbox = 256;
// The failure of a queue pair and the peer's message about it arrive separately. Waiting a moment
// for the message is worthwhile.
constexpr auto kWordDelay = milliseconds(500);

std::size_t index_of(Completion::Kind kind) { return static_cast<std::size_t>(kind); }

static_assert(static_cast<int>(Completion::Kind::send) == 0 &&
              static_cast<int>(Completion::Kind::write) == 1 &&
              static_cast<int>(Completion::Kind::read) == 2);

// The length of the longest message that both ends take.
std::uint64_t smaller_message(std::uint64_t ours, std::uint64_t theirs) {
  return std::max<std::uint64_t>(1, std::min({ours, theirs, kLargestPieceBytes}));
}

// Both kinds of server wait on a port for a client's first message, and either kind of client may
// call there.
bool calls_other_server(const wire::Message& got, const wire::Message& wanted) {
  using wire::Hello;
  using wire::PerfRequest;
  return (std::holds_alternative<Hello>(got) && std::holds_alternative<PerfRequest>(wanted)) ||
         (std::holds_alternative<PerfRequest>(got) && std::holds_alternative<Hello>(wanted));
}

}  // namespace

Session::Session(wire::ControlChannel channel, Policy policy)
    : channel_(std::move(channel)), policy_(std::move(policy)) {}

Wait Session::wait() const noexcept { return {policy_.patience, policy_.cancel_fd}; }

Outcome<void> Session::send(const wire::Message& message) {
  if (auto sent = channel_.send(message, wait()); !sent) {
    return tl::make_unexpected(explain(sent.error()));
  }
  return {};
}

Outcome<void> Session::announce(Step step) {
  return send(wire::Ready{static_cast<std::uint16_t>(step)});
}

Outcome<void> Session::expect_step(Step step) {
  HBMWIRE_TRY_ASSIGN(const auto ready, expect<wire::Ready>());
  if (ready.step == static_cast<std::uint16_t>(step)) return {};
  return fail(fmt::format("connect: {}: the {} is at step {}, not {}: are both of one version?",
                          peer(), policy_.peer_role, ready.step, static_cast<int>(step)));
}

Outcome<wire::Message> Session::next_message() {
  while (inbox_.empty()) HBMWIRE_TRY(queue_message());
  wire::Message message = std::move(inbox_.front());
  inbox_.pop_front();
  return message;
}

Outcome<void> Session::queue_message() {
  HBMWIRE_TRY_ASSIGN(auto message, receive());
  if (!message) return {};
  if (inbox_.size() >= kLargestInbox) {
    return fail(
        fmt::format("connect: {}: the {} sends more than the protocol allows: are both of "
                    "one version?",
                    peer(), policy_.peer_role));
  }
  inbox_.push_back(std::move(*message));
  return {};
}

Outcome<std::optional<wire::Message>> Session::receive() {
  HBMWIRE_TRY_ASSIGN(auto message, channel_.receive(wait()));
  last_heard_ = Clock::now();
  if (const auto* abort = std::get_if<wire::Abort>(&message)) {
    Failure failure(fmt::format("{}: the {} gave up: {}", peer(), policy_.peer_role,
                                wire::printable(abort->text)));
    failure.peer_knows = true;
    return tl::make_unexpected(std::move(failure));
  }
  const auto* ready = std::get_if<wire::Ready>(&message);
  if (ready != nullptr && ready->step == static_cast<std::uint16_t>(Step::alive)) {
    return std::optional<wire::Message>();
  }
  return std::optional<wire::Message>(std::move(message));
}

tl::unexpected<Failure> Session::out_of_turn(const wire::Message& got,
                                             const wire::Message& wanted) const {
  if (calls_other_server(got, wanted)) {
    return fail(fmt::format(
        "connect: {}: {}", peer(),
        std::holds_alternative<wire::PerfRequest>(got)
            ? "`hbmwire perf` called `hbmwire server`, which measures nothing; start `hbmwire "
              "perf` "
              "without HOST as its server"
            : "`hbmwire client` called a server of `hbmwire perf`, which only measures; start "
              "`hbmwire server` as its server"));
  }
  return fail(
      fmt::format("connect: {}: the {} sent '{}' where '{}' belongs: are both of one version?",
                  peer(), policy_.peer_role, wire::name_of(got), wire::name_of(wanted)));
}

bool Session::is_readable(milliseconds within) const noexcept {
  pollfd control{.fd = channel_.fd(), .events = POLLIN, .revents = 0};
  return ::poll(&control, 1, static_cast<int>(within.count())) > 0;
}

Outcome<void> Session::tick() {
  if (Interrupt::happened()) {
    return tl::make_unexpected(make_error(Errc::cancelled, Stage::copy, "interrupt"));
  }
  const auto now = Clock::now();
  if (now - last_tick_ < kTickInterval) return {};
  last_tick_ = now;
  HBMWIRE_TRY(look());
  return announce(Step::alive);
}

Outcome<void> Session::await_mail() {
  while (!has_mail()) {
    HBMWIRE_TRY(tick());
    if (is_readable(kTickInterval / 4)) {  // so often that tick() comes in time
      HBMWIRE_TRY(look());
    } else if (is_silent()) {
      return tl::make_unexpected(make_error(Errc::timed_out, Stage::connect,
                                            "the peer says nothing any more", peer(),
                                            Hint::peer_slow));
    }
  }
  return {};
}

Outcome<void> Session::look() {
  while (is_readable(milliseconds(0))) HBMWIRE_TRY(queue_message());
  return {};
}

void Session::give_up(const Failure& failure) noexcept {
  if (failure.peer_knows || std::exchange(gave_up_, true)) return;
  constexpr auto kLastWord = std::chrono::seconds(1);
  const Deadline deadline = Deadline::after(kLastWord);
  if (!channel_.send(wire::Abort{failure.text}, deadline)) return;
  // Closing a socket with unread bytes resets the connection, and the reset overtakes the last
  // message. Therefore this reads until the peer has closed its end.
  ::shutdown(channel_.fd(), SHUT_WR);
  pollfd control{.fd = channel_.fd(), .events = POLLIN, .revents = 0};
  std::array<char, 4096> unread{};
  while (::poll(&control, 1, deadline.poll_timeout_ms()) > 0 &&
         ::recv(channel_.fd(), unread.data(), unread.size(), MSG_DONTWAIT) > 0) {
  }
}

// If an operation failed because the peer gave up, the peer's message is the cause.
Failure Session::explain(const Error& error) {
  if (error.code == Errc::cancelled) return error;
  while (is_readable(kWordDelay)) {
    auto message = receive();
    if (!message) return message.error();
  }
  return error;
}

Outcome<void> Session::trade_addresses(const Nic& nic, const Region& region, std::uint64_t bytes) {
  const std::uint64_t message_bytes =
      smaller_message(nic.info().max_message_bytes, kLargestPieceBytes);
  // One more than the pieces, for the receive of an immediate value, which has no bytes.
  depth_ = std::clamp(Pieces{bytes, message_bytes}.count() + 1, kSmallestDepth, kLargestDepth);
  const auto depth = static_cast<std::uint32_t>(depth_);
  // Applies the settings as endpoints do; a connection by itself does not.
  HBMWIRE_TRY_ASSIGN(const Settings settings, settings_from_environment());
  HBMWIRE_TRY_ASSIGN(connection_, Connection::create(nic, {.send_depth = depth,
                                                           .receive_depth = depth,
                                                           .link = settings.endpoint.link}));
  HBMWIRE_TRY(send(wire::Address{.connection = connection_->local(), .memory = region.remote()}));
  HBMWIRE_TRY_ASSIGN(remote_, expect<wire::Address>());
  if (remote_.memory.length_bytes < region.size_bytes()) {
    return fail(fmt::format(
        "connect: {}: the {}'s memory has {} bytes, {} are needed: are both of one version?",
        peer(), policy_.peer_role, remote_.memory.length_bytes, region.size_bytes()));
  }
  piece_bytes_ =
      smaller_message(connection_->local().max_message_bytes, remote_.connection.max_message_bytes);
  if (pieces(bytes).count() >= depth_) {
    return fail(fmt::format(
        "connect: {}: {} bytes are more than {} messages of {} bytes: choose a smaller -s", peer(),
        bytes, depth_ - 1, piece_bytes_));
  }
  return {};
}

Outcome<void> Session::connect() {
  HBMWIRE_TRY(connection_->connect(remote_.connection));
  return {};
}

RemoteMemory Session::remote(std::uint64_t offset_bytes) const noexcept {
  RemoteMemory memory = remote_.memory;
  memory.address += offset_bytes;
  memory.length_bytes -= offset_bytes;
  return memory;
}

Outcome<void> Session::take_completion() {
  auto completion = connection_->wait(wait(), channel_.fd());
  if (!completion) return tl::make_unexpected(explain(completion.error()));
  if (!*completion) return queue_message();  // the peer sent a message
  sort_in(**completion);
  // This side makes progress, but the peer sees nothing of a read, nor of a write before its last
  // message.
  return tick();
}

void Session::sort_in(const Completion& done) {
  if (index_of(done.kind) < finished_.size()) {
    ++finished_.at(index_of(done.kind));
  } else {
    arrivals_.push_back(done);
  }
}

Outcome<void> Session::finish(Completion::Kind kind, std::uint64_t count) {
  auto& finished = finished_.at(index_of(kind));
  while (finished < count) HBMWIRE_TRY(take_completion());
  finished -= count;
  return {};
}

Outcome<bool> Session::try_finish(Completion::Kind kind) {
  auto& finished = finished_.at(index_of(kind));
  const Wait now{std::chrono::seconds(0)};
  while (finished == 0) {
    auto completion = connection_->wait(now);
    if (!completion && completion.error().code == Errc::timed_out) return false;
    if (!completion) return tl::make_unexpected(explain(completion.error()));
    if (*completion) sort_in(**completion);
  }
  --finished;
  return true;
}

Outcome<Completion> Session::arrival() {
  while (arrivals_.empty()) HBMWIRE_TRY(take_completion());
  const Completion done = arrivals_.front();
  arrivals_.pop_front();
  return done;
}

}  // namespace hbmwire::tools
