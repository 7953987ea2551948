// SPDX-License-Identifier: MIT
#include "attach/attach_service.hpp"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <string>
#include <utility>

#include "base/log.hpp"
#include "wire/fd_socket.hpp"

namespace hbmwire::detail {

namespace {

using namespace std::chrono_literals;

constexpr const char* kSubject = "attach";
// How long a client may take to send its request. Clients send it right after connect(2), so
// only a process that was stopped in between needs more than an instant.
constexpr auto kSilence = 5s;
// One more client replaces the oldest, so that clients that send nothing cannot fill the table.
constexpr std::size_t kMaxClients = 64;
// One progress() accepts at most this many connections and handles at most this many events,
// because the application's other work waits for it to return.
constexpr int kMaxAccepts = 64;
constexpr int kMaxEvents = 64;
// How long connections stay in the queue when the process has no descriptors left for them.
constexpr auto kQueuePause = 50ms;

// The number in an epoll event: the listener, the timer, or a client (from kFirstClient on).
constexpr std::uint64_t kListener = 0;
constexpr std::uint64_t kTimer = 1;
constexpr std::uint64_t kFirstClient = 2;

Error call_failed(const char* call) { return system_error(Stage::connect, call, errno, kSubject); }

Result<void> fill_randomly(std::span<std::uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = ::getrandom(bytes.data(), bytes.size(), 0);
    if (got < 0 && errno != EINTR) return tl::make_unexpected(call_failed("getrandom"));
    if (got > 0) bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

/// A random name, so that no other process can have taken it. It holds the process id, so that `ss
/// -xl` shows the owner.
Result<std::string> random_name() {
  std::array<std::uint8_t, 8> bytes{};
  HBMWIRE_TRY(fill_randomly(bytes));
  std::string name = "hbmwire-attach-" + std::to_string(::getpid()) + "-";
  constexpr std::string_view kDigits = "0123456789abcdef";
  for (const std::uint8_t byte : bytes) {
    name += kDigits[byte >> 4U];
    name += kDigits[byte & 0xfU];
  }
  return name;
}

void note_dropped(const Error& error) {
  if (log_wanted(LogLevel::debug)) log_line(LogLevel::debug, [&] { return describe(error); });
}

/// `fd`: the descriptor that goes with the reply; -1: none.
void answer(int socket, const wire::AttachReply& reply, int fd) {
  const auto sent = wire::send_with_fd(socket, wire::encode(reply), fd);
  if (!sent) note_dropped(sent.error());
}

}  // namespace

Result<std::shared_ptr<AttachService>> AttachService::create() {
  auto service = std::make_shared<AttachService>();
  service->next_id_ = kFirstClient;
  HBMWIRE_TRY_ASSIGN(service->name_, random_name());
  service->epoll_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!service->epoll_) return tl::make_unexpected(call_failed("epoll_create1"));
  service->timer_ = Fd(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!service->timer_) return tl::make_unexpected(call_failed("timerfd_create"));
  HBMWIRE_TRY_ASSIGN(service->listener_, wire::listen_abstract(service->name_));
  HBMWIRE_TRY(service->watch(service->listener_.get(), kListener));
  HBMWIRE_TRY(service->watch(service->timer_.get(), kTimer));
  service->reserve_ = Fd(::fcntl(service->epoll_.get(), F_DUPFD_CLOEXEC, 0));
  if (!service->reserve_) return tl::make_unexpected(call_failed("fcntl(F_DUPFD_CLOEXEC)"));
  return service;
}

Result<void> AttachService::watch(int fd, std::uint64_t id) const {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = id;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return {};
  return tl::make_unexpected(call_failed("epoll_ctl"));
}

Result<AttachService::Entry> AttachService::publish(const Allocation& memory,
                                                    const DmabufRange& range, bool writable) {
  Entry entry;
  entry.address.socket = name_;
  HBMWIRE_TRY(fill_randomly(entry.address.secret));
  const std::scoped_lock lock(mutex_);
  entry.id = next_id_++;
  publications_.emplace(entry.id, Publication{memory, range, writable, entry.address.secret});
  return entry;
}

void AttachService::withdraw(std::uint64_t id) noexcept {
  // In a child by fork(2) the lock may be held by a thread that exists only in the parent.
  if (is_the_parents()) return;
  // Declared before the lock, so that the publication's memory is released after it: that takes
  // system calls.
  std::map<std::uint64_t, Publication>::node_type gone;
  const std::scoped_lock lock(mutex_);
  gone = publications_.extract(id);
}

Result<void> AttachService::progress() {
  // The epoll set and the queue of connections are shared with the parent, not copied: a mere
  // epoll_wait(2) here would consume the parent's events.
  if (is_the_parents()) {
    return tl::make_unexpected(make_error(Errc::not_supported, Stage::connect,
                                          "the listener is the parent process's", kSubject));
  }
  const std::scoped_lock lock(mutex_);
  if (queue_waits_ && queue_waits_->passed()) {
    watch_the_queue(true);
    queue_waits_.reset();
  }
  std::array<epoll_event, kMaxEvents> events{};
  const int count = ::epoll_wait(epoll_.get(), events.data(), kMaxEvents, 0);
  if (count < 0 && errno != EINTR) return tl::make_unexpected(call_failed("epoll_wait"));
  for (int i = 0; i < count; ++i) {
    const std::uint64_t id = events.at(static_cast<std::size_t>(i)).data.u64;
    if (id == kListener) {
      take_connections();
    } else if (const auto client = clients_.find(id); client != clients_.end()) {
      serve(client);
    }
    // kTimer only makes the set readable: each progress() does what the timer is for.
  }
  drop_the_silent();
  set_timer();
  return {};
}

void AttachService::take_connections() {
  for (int i = 0; i < kMaxAccepts; ++i) {
    Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket) {
      take_connection(std::move(socket));
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
      const Error shortage = call_failed("accept4");
      if (shortage_.is_new(shortage)) log_line(LogLevel::warn, describe(shortage));
      if (!clients_.empty()) {
        // The next round accepts with the descriptor of the oldest client.
        clients_.erase(clients_.begin());
      } else if (!refuse_one()) {
        return let_the_queue_wait();
      }
    } else if (errno != EINTR && errno != ECONNABORTED) {
      return;  // the queue is empty
    }
  }
}

void AttachService::take_connection(Fd socket) {
  const auto user = wire::peer_user(socket.get());
  if (!user || *user != ::geteuid()) {
    const auto refusal =
        wire::encode(wire::AttachReply{.status = wire::AttachReply::Status::other_user});
    static_cast<void>(wire::send_with_fd(socket.get(), refusal, -1));
    return;
  }
  if (clients_.size() >= kMaxClients) clients_.erase(clients_.begin());
  const std::uint64_t id = next_id_++;
  if (!watch(socket.get(), id)) return;
  const auto client =
      clients_.emplace(id, Client{std::move(socket), Deadline::after(kSilence), {}}).first;
  serve(client);
}

/// Refuses one connection with the descriptor that reserve_ frees. Returns false if no connection
/// waits, or another thread took that descriptor, too.
bool AttachService::refuse_one() {
  reserve_.reset();
  Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  const bool taken = static_cast<bool>(socket);
  if (taken) answer(socket.get(), {.status = wire::AttachReply::Status::no_descriptors}, -1);
  socket.reset();
  reserve_ = Fd(::fcntl(epoll_.get(), F_DUPFD_CLOEXEC, 0));
  return taken;
}

/// Stops watching the listener for kQueuePause. Without descriptors a connection stays in the
/// queue, and the epoll set would report it over and over.
void AttachService::let_the_queue_wait() {
  watch_the_queue(false);
  queue_waits_ = Deadline::after(kQueuePause);
}

void AttachService::watch_the_queue(bool now) {
  epoll_event event{};
  event.events = now ? EPOLLIN : 0U;
  event.data.u64 = kListener;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listener_.get(), &event);
}

/// Reads a client's request, answers it, and erases the client. Never waits: if the request is not
/// complete, its next bytes cause another event. Closing a socket removes it from the epoll set.
void AttachService::serve(Clients::iterator client) {
  auto& [socket, deadline, request] = client->second;
  for (;;) {
    const auto came = wire::receive_bytes(socket.get(), request.room());
    if (came && !*came) return;
    if (!came || **came == 0) {
      if (!came) note_dropped(came.error());
      break;
    }
    const auto complete = request.advance(**came);
    if (complete && !*complete) continue;
    if (complete) {
      int fd = -1;
      const auto reply = reply_to(**complete, fd);
      answer(socket.get(), reply, fd);
    } else {
      note_dropped(complete.error());
      if (complete.error().hint == Hint::other_version)
        answer(socket.get(), {.status = wire::AttachReply::Status::other_version}, -1);
    }
    break;
  }
  clients_.erase(client);
}

wire::AttachReply AttachService::reply_to(const wire::AttachRequest& request, int& fd) const {
  const Publication* found = nullptr;
  // Compares all of them even after a match, so that the time taken tells nothing about the
  // secrets.
  for (const auto& [id, publication] : publications_) {
    if (wire::equal_in_constant_time(publication.secret, request.secret)) found = &publication;
  }
  if (found == nullptr) return {.status = wire::AttachReply::Status::unknown};
  fd = found->range.fd->get();
  return {.status = wire::AttachReply::Status::granted,
          .type = found->memory.domain().device().type,
          .writable = found->writable,
          .offset_bytes = found->range.offset_bytes,
          .length_bytes = found->range.length_bytes,
          .base_address = found->range.base_address,
          .generation = found->range.generation};
}

void AttachService::drop_the_silent() {
  while (!clients_.empty() && clients_.begin()->second.deadline.passed()) {
    clients_.erase(clients_.begin());
  }
}

/// Rings when the oldest client is overdue, or when the queue is watched again. Setting the timer
/// also clears an expiry that has not been read.
void AttachService::set_timer() {
  int left_ms = -1;
  if (!clients_.empty()) left_ms = clients_.begin()->second.deadline.poll_timeout_ms();
  if (queue_waits_) {
    const int queue_ms = queue_waits_->poll_timeout_ms();
    left_ms = left_ms < 0 ? queue_ms : std::min(left_ms, queue_ms);
  }
  itimerspec at{};
  if (left_ms >= 0) {
    // 0 would disarm the timer.
    left_ms = std::max(1, left_ms);
    at.it_value.tv_sec = left_ms / 1000;
    at.it_value.tv_nsec = left_ms % 1000 * 1'000'000L;
  }
  ::timerfd_settime(timer_.get(), 0, &at, nullptr);
}

}  // namespace hbmwire::detail
