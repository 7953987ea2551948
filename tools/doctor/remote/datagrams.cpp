// SPDX-License-Identifier: MIT
#include "tools/doctor/remote/datagrams.hpp"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "hbmwire/fd.hpp"

#include "tools/doctor/remote/size_search.hpp"

namespace hbmwire::tools::doctor {
namespace {

constexpr std::chrono::milliseconds kAnswerTime(200);
constexpr std::chrono::milliseconds kProbeTime(5000);

std::uint32_t header_bytes(const IpAddress& address) {
  constexpr std::uint32_t kUdp = 8;
  return (address.is_ipv6() ? 40U : 20U) + kUdp;  // IP, then UDP
}

/// Prevents fragmentation here and in the network, and ignores an MTU that the kernel has learned
/// for this destination (ip(7), ipv6(7)).
void forbid_fragments(int fd, const IpAddress& address) {
  const int probe_v4 = IP_PMTUDISC_PROBE;
  const int probe_v6 = IPV6_PMTUDISC_PROBE;
  const int on = 1;
  if (address.is_ipv6()) {
    ::setsockopt(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &probe_v6, sizeof probe_v6);
    ::setsockopt(fd, IPPROTO_IPV6, IPV6_DONTFRAG, &on, sizeof on);
  } else {
    ::setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &probe_v4, sizeof probe_v4);
  }
}

/// The probing of one address.
class DatagramProbe {
 public:
  static Outcome<DatagramProbe> begin(IpAddress address, const Nonce& nonce);

  [[nodiscard]] int fd() const noexcept { return fd_.get(); }  // -1 after the end

  [[nodiscard]] const Deadline& next() const noexcept { return next_; }

  /// Reads the answers and errors that are waiting.
  void take();
  /// Repeats datagrams that were not answered in time, or begins the next sizes.
  void go_on();
  /// The result. It is not exact if the search had not ended in its time.
  DatagramWay end() &&;

 private:
  DatagramProbe(DatagramWay way, const Nonce& nonce, const SizeSearch& search)
      : way_(std::move(way)), nonce_(nonce), search_(search) {}

  bool connect();
  void send_round();
  void send_one(std::uint32_t packet_bytes);
  void refuse(int error);

  DatagramWay way_;
  Nonce nonce_;
  SizeSearch search_;
  Fd fd_;
  std::string own_;    // this machine's address towards the other one
  unsigned sent_ = 0;  // how often the datagrams of this round were sent
  std::uint32_t number_ = 0;
  // When unanswered datagrams are sent again.
  Deadline next_ = Deadline::after(std::chrono::seconds(0));
};

Outcome<DatagramProbe> DatagramProbe::begin(IpAddress address, const Nonce& nonce) {
  DatagramWay way;
  way.address = std::move(address);
  const std::uint32_t least =
      header_bytes(way.address) + static_cast<std::uint32_t>(kSmallestProbe);
  if (auto interface = interface_towards(way.address)) way.interface = std::move(*interface);
  way.asked_bytes = std::max(least, std::min(way.interface.mtu_bytes, kLargestPacket));
  DatagramProbe probe(std::move(way), nonce, SizeSearch(least, way.asked_bytes));
  const int family = probe.way_.address.storage.ss_family;
  probe.fd_ = Fd{::socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
  if (!probe.fd_ && errno != EAFNOSUPPORT)
    return tl::make_unexpected(Failure(system_error(Stage::connect, "socket", errno)));
  if (!probe.connect()) probe.refuse(errno);
  return probe;
}

bool DatagramProbe::connect() {
  if (!fd_) return false;
  forbid_fragments(fd(), way_.address);
  keep_unreachable(fd(), way_.address);
  const bool connected = ::connect(fd(), way_.address.get(), way_.address.length) == 0;
  const int error = errno;
  own_ = own_host(fd());
  errno = error;
  return connected;
}

/// Gives up the address, because this machine cannot send to it.
void DatagramProbe::refuse(int error) {
  way_.error = error;
  fd_.reset();
}

void DatagramProbe::take() {
  // One byte more than an answer, to notice longer datagrams.
  std::array<std::uint8_t, ProbeAnswer::kBytes + 1> bytes{};
  // An ICMP message makes the next call on the socket fail, whichever that is. Answers may wait
  // behind it, so some failures are passed over.
  for (unsigned errors = 0; errors < 16;) {
    const ssize_t got = ::recv(fd(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (got < 0) {
      ++errors;
      continue;
    }
    const auto answer = decode_answer(std::span(bytes).first(static_cast<std::size_t>(got)));
    if (!answer || answer->header.nonce != nonce_) continue;
    search_.arrived(answer->received_bytes + header_bytes(way_.address));
    way_.far_mtu_bytes = answer->mtu_bytes;
  }
  if (auto told = take_unreachable(fd(), own_)) way_.told = std::move(told);
}

void DatagramProbe::go_on() {
  if (!search_.is_round_answered()) {
    if (!next_.passed()) return;
    if (sent_ < search_.tries()) return send_round();
  }
  search_.end_round();
  sent_ = 0;
  if (search_.round().empty())
    fd_.reset();
  else
    send_round();
}

void DatagramProbe::send_round() {
  ++sent_;
  next_ = Deadline::after(kAnswerTime);
  for (const std::uint32_t size : search_.round()) {
    if (fd_ && size > search_.arrived_bytes()) send_one(size);
  }
}

void DatagramProbe::send_one(std::uint32_t packet_bytes) {
  std::array<std::uint8_t, kLargestPacket> bytes{};
  std::ranges::copy(encode_header({.nonce = nonce_, .number = number_++}), bytes.begin());
  const std::size_t size =
      std::min<std::size_t>(packet_bytes - header_bytes(way_.address), bytes.size());
  // A pending ICMP message makes the first call fail without sending.
  for (unsigned tries = 0; tries < 3; ++tries) {
    if (::send(fd(), bytes.data(), size, MSG_DONTWAIT) >= 0) return;
    // This machine can't send there, unless the error is that of an ICMP message.
    if (errno == EPERM || errno == EACCES || errno == ENETUNREACH || errno == EINVAL) {
      const int error = errno;
      auto told = take_unreachable(fd(), own_);
      if (!told) return refuse(error);
      way_.told = std::move(told);
    }
  }
}

DatagramWay DatagramProbe::end() && {
  way_.exact = search_.round().empty();
  way_.arrived_bytes = search_.arrived_bytes();
  return std::move(way_);
}

/// Waits for answers to any probe, or until the next repetition is due. Errors: interrupted.
Outcome<void> wait_for_answers(std::vector<DatagramProbe>& probes, const Deadline& until,
                               int cancel_fd) {
  std::vector<pollfd> polled;
  Deadline next = until;
  for (const DatagramProbe& probe : probes) {
    polled.push_back({.fd = probe.fd(), .events = POLLIN, .revents = 0});
    if (probe.fd() >= 0 && probe.next().when() < next.when()) next = probe.next();
  }
  polled.push_back({.fd = cancel_fd, .events = POLLIN, .revents = 0});
  const int ready = ::poll(polled.data(), polled.size(), next.poll_timeout_ms());
  if (ready < 0 && errno != EINTR)
    return tl::make_unexpected(Failure(system_error(Stage::connect, "poll", errno)));
  if (ready > 0 && polled.back().revents != 0)
    return tl::make_unexpected(Failure(make_error(Errc::cancelled, Stage::connect, "interrupt")));
  return {};
}

bool is_any_under_way(const std::vector<DatagramProbe>& probes) {
  return std::ranges::any_of(probes, [](const DatagramProbe& probe) { return probe.fd() >= 0; });
}

}  // namespace

Outcome<std::vector<DatagramWay>> try_datagrams(std::vector<IpAddress> addresses,
                                                std::uint16_t port, const Nonce& nonce,
                                                const Wait& wait) {
  if (addresses.size() > kMostAddresses) addresses.resize(kMostAddresses);
  std::vector<DatagramProbe> probes;
  for (IpAddress& address : addresses) {
    address.set_port(port);
    HBMWIRE_TRY_ASSIGN(DatagramProbe probe, DatagramProbe::begin(std::move(address), nonce));
    probes.push_back(std::move(probe));
  }
  const Deadline mine = Deadline::after(kProbeTime);
  const Deadline until = mine.when() < wait.deadline.when() ? mine : wait.deadline;
  while (is_any_under_way(probes) && !until.passed()) {
    for (DatagramProbe& probe : probes) {
      if (probe.fd() >= 0) probe.take();
      if (probe.fd() >= 0) probe.go_on();
    }
    if (is_any_under_way(probes)) HBMWIRE_TRY(wait_for_answers(probes, until, wait.cancel_fd));
  }
  std::vector<DatagramWay> ways;
  for (DatagramProbe& probe : probes) ways.push_back(std::move(probe).end());
  return ways;
}

}  // namespace hbmwire::tools::doctor
