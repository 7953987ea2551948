// SPDX-License-Identifier: MIT
#include "tools/doctor/remote/way.hpp"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "hbmwire/fd.hpp"

namespace hbmwire::tools::doctor {
namespace {

using Clock = Deadline::Clock;
using Reach = TcpAttempt::Reach;
using std::chrono::milliseconds;

// glibc asks a second name server after 5 s. The wait is longer, to tell a late answer from none.
constexpr milliseconds kLookUpTime(6000);
// Allows for one lost SYN, which TCP repeats after 1 s.
constexpr milliseconds kConnectTime(2000);
// Linux sends three ARP requests, one second apart (arp(7), mcast_solicit).
constexpr milliseconds kNeighborTime(3500);

Deadline earlier(const Deadline& one, const Deadline& other) {
  return one.when() < other.when() ? one : other;
}

/// All connections of a TcpWay, made at the same time.
class Connects {
 public:
  Outcome<void> begin(std::vector<IpAddress> addresses);

  /// Waits until all have ended, or the time is over. Errors: interrupted.
  Outcome<void> finish(const Wait& wait);

  std::vector<TcpAttempt> take() { return std::move(attempts_); }

 private:
  /// Stores how an attempt ended. `local`: connect(2) itself failed.
  void settle(std::size_t index, int error, bool local);

  [[nodiscard]] bool is_under_way() const {
    return std::ranges::any_of(fds_, [](const Fd& fd) { return static_cast<bool>(fd); });
  }

  /// The end of the wait for the attempts that are under way.
  [[nodiscard]] Deadline patience() const;

  Clock::time_point began_ = Clock::now();
  std::vector<TcpAttempt> attempts_;
  std::vector<Fd> fds_;             // sockets of connections in progress
  std::vector<std::string> owned_;  // own_host() of each, which a failed socket no longer reports
};

Outcome<void> Connects::begin(std::vector<IpAddress> addresses) {
  for (IpAddress& address : addresses) {
    const int family = address.storage.ss_family;
    Fd fd{::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
    const int error = fd ? 0 : errno;
    // Without descriptors the probe learns nothing. A kernel without IPv6 still allows IPv4.
    if (error != 0 && error != EAFNOSUPPORT)
      return tl::make_unexpected(Failure(system_error(Stage::connect, "socket", error)));
    TcpAttempt attempt;
    attempt.address = std::move(address);
    attempts_.push_back(std::move(attempt));
    fds_.push_back(std::move(fd));
    owned_.emplace_back();
    if (error != 0) settle(attempts_.size() - 1, error, /*local=*/true);
  }
  for (std::size_t i = 0; i < attempts_.size(); ++i) {
    if (!fds_[i]) continue;
    const IpAddress& address = attempts_[i].address;
    keep_unreachable(fds_[i].get(), address);
    const bool done = ::connect(fds_[i].get(), address.get(), address.length) == 0;
    owned_[i] = own_host(fds_[i].get());
    if (done || errno != EINPROGRESS) settle(i, done ? 0 : errno, !done);
  }
  return {};
}

void Connects::settle(std::size_t index, int error, bool local) {
  TcpAttempt& attempt = attempts_[index];
  attempt.took = std::chrono::duration_cast<milliseconds>(Clock::now() - began_);
  attempt.error = error;
  // The loopback device refuses before connect(2) returns, which is no local failure.
  attempt.local = local && error != ECONNREFUSED;
  if (fds_[index]) attempt.told = take_unreachable(fds_[index].get(), owned_[index]);
  fds_[index].reset();
  if (error == 0)
    attempt.reach = Reach::reached;
  else if (error == ECONNREFUSED && !attempt.told)
    attempt.reach = Reach::refused;
  else
    attempt.reach = error == ETIMEDOUT ? Reach::no_answer : Reach::unreachable;
}

Deadline Connects::patience() const {
  const bool reached = std::ranges::any_of(
      attempts_, [](const TcpAttempt& each) { return each.reach == Reach::reached; });
  return Deadline(Deadline::later(began_, reached ? kConnectTime : kNeighborTime));
}

Outcome<void> Connects::finish(const Wait& wait) {
  while (is_under_way()) {
    std::vector<pollfd> polled;
    for (const Fd& fd : fds_) polled.push_back({.fd = fd.get(), .events = POLLOUT, .revents = 0});
    polled.push_back({.fd = wait.cancel_fd, .events = POLLIN, .revents = 0});
    const Deadline until = earlier(wait.deadline, patience());
    const int ready = ::poll(polled.data(), polled.size(), until.poll_timeout_ms());
    if (ready < 0 && errno != EINTR)
      return tl::make_unexpected(Failure(system_error(Stage::connect, "poll", errno)));
    if (ready > 0 && polled.back().revents != 0)
      return tl::make_unexpected(Failure(make_error(Errc::cancelled, Stage::connect, "interrupt")));
    for (std::size_t i = 0; ready > 0 && i < fds_.size(); ++i) {
      if (polled[i].revents == 0 || !fds_[i]) continue;
      int error = 0;
      socklen_t size = sizeof error;
      ::getsockopt(fds_[i].get(), SOL_SOCKET, SO_ERROR, &error, &size);
      settle(i, error, /*local=*/false);
    }
    if (!until.passed()) continue;
    for (std::size_t i = 0; i < fds_.size(); ++i) {
      if (fds_[i]) settle(i, ETIMEDOUT, /*local=*/false);
    }
  }
  return {};
}

}  // namespace

const IpAddress* TcpWay::usable() const noexcept {
  for (const TcpAttempt& attempt : attempts) {
    if (attempt.reach == Reach::reached) return &attempt.address;
  }
  return nullptr;
}

Outcome<TcpWay> try_addresses(std::vector<IpAddress> addresses, const Wait& wait) {
  if (addresses.size() > kMostAddresses) addresses.resize(kMostAddresses);
  Connects connects;
  HBMWIRE_TRY(connects.begin(std::move(addresses)));
  HBMWIRE_TRY(connects.finish(wait));
  TcpWay way;
  way.addresses = TcpWay::Addresses::of_nics;
  way.attempts = connects.take();
  return way;
}

Outcome<TcpWay> try_name(const std::string& host, std::uint16_t port, const Wait& wait) {
  const Wait look_up_wait(earlier(wait.deadline, Deadline::after(kLookUpTime)), wait.cancel_fd);
  HBMWIRE_TRY_ASSIGN(NameAnswer look_up, look_up_name(host, port, look_up_wait));
  HBMWIRE_TRY_ASSIGN(TcpWay way, try_addresses(look_up.addresses, wait));
  way.addresses = TcpWay::Addresses::of_a_name;
  way.name = host;
  way.look_up = std::move(look_up);
  return way;
}

}  // namespace hbmwire::tools::doctor
