// SPDX-License-Identifier: MIT
/// A program that way_test.py runs in network namespaces: the probes of the network between two
/// machines, without a conversation before them. Prints findings as JSON lines.
///
///   way serve PORT          listens on TCP and UDP until its standard input ends
///   way name HOST PORT      TCP with all addresses of a name
///   way addresses TEXT...   TCP with addresses and ports
///   way datagrams PORT HOST...   UDP
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/common/output.hpp"
#include "tools/doctor/remote/datagrams.hpp"
#include "tools/doctor/remote/way.hpp"

namespace {

using hbmwire::Fd;
using hbmwire::tools::Json;
using namespace hbmwire::tools::doctor;  // NOLINT(google-build-using-namespace)

constexpr Nonce kNonce{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
constexpr std::chrono::seconds kWait(20);

int fail(const std::string& text) {
  std::fprintf(stderr, "way: %s\n", text.c_str());
  return 1;
}

void say(const Json& value) {
  std::puts(value.dump().c_str());
  std::fflush(stdout);
}

void say_findings(const std::vector<Finding>& findings) {
  for (const Finding& finding : findings) {
    say({{"check", finding.check},
         {"subject", finding.subject},
         {"verdict", to_string(finding.verdict)},
         {"source", finding.source},
         {"found", finding.found},
         {"wanted", finding.wanted},
         {"remedy", finding.remedy}});
  }
}

/// Listens with both families if they exist. The kernel completes connections without accept(2).
Fd listen_on(std::uint16_t port) {
  for (const int family : {AF_INET6, AF_INET}) {
    Fd fd{::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    const int on = 1;
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in6 any{};  // zeros are also the "any" address of sockaddr_in
    any.sin6_family = static_cast<sa_family_t>(family);
    any.sin6_port = htons(port);
    const socklen_t length = family == AF_INET6 ? sizeof any : sizeof(sockaddr_in);
    const auto* address = reinterpret_cast<const sockaddr*>(&any);
    if (::bind(fd.get(), address, length) == 0 && ::listen(fd.get(), 64) == 0) return fd;
  }
  return {};
}

int serve(std::uint16_t port) {
  const Fd listener = listen_on(port);
  if (!listener) return fail("no listener");
  auto echo = DatagramEcho::create(port, kNonce);
  if (!echo) return fail(hbmwire::describe(echo.error()));
  say({{"listening", port}});
  const auto fds = echo->fds();
  while (true) {
    std::array<pollfd, 3> polled{{{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0},
                                  {.fd = fds[0], .events = POLLIN, .revents = 0},
                                  {.fd = fds[1], .events = POLLIN, .revents = 0}}};
    if (::poll(polled.data(), polled.size(), -1) < 0 || polled[0].revents != 0) return 0;
    echo->answer();
  }
}

int say_way(const hbmwire::tools::Outcome<TcpWay>& way) {
  if (!way) return fail(way.error().text);
  say_findings(findings_of(*way));
  say({{"usable", way->usable() != nullptr ? way->usable()->text() : ""}});
  return 0;
}

int datagrams(std::uint16_t port, std::span<const std::string> hosts) {
  std::vector<IpAddress> addresses;
  for (const std::string& host : hosts) {
    if (auto address = ip_address(host, port)) addresses.push_back(*address);
  }
  const auto ways = try_datagrams(addresses, port, kNonce, kWait);
  if (!ways) return fail(ways.error().text);
  for (const DatagramWay& way : *ways) {
    say_findings(findings_of(way));
    say({{"address", way.address.host},
         {"interface", way.interface.name},
         {"asked", way.asked_bytes},
         {"arrived", way.arrived_bytes},
         {"exact", way.exact},
         {"far_mtu", way.far_mtu_bytes}});
  }
  return 0;
}

std::uint16_t port_in(const std::string& text) {
  return static_cast<std::uint16_t>(std::strtoul(text.c_str(), nullptr, 10));
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 2 && words[0] == "serve") return serve(port_in(words[1]));
  if (words.size() == 3 && words[0] == "name")
    return say_way(try_name(words[1], port_in(words[2]), kWait));
  if (words.size() >= 2 && words[0] == "addresses")
    return say_way(try_addresses(ip_addresses(std::span(words).subspan(1)), kWait));
  if (words.size() >= 3 && words[0] == "datagrams")
    return datagrams(port_in(words[1]), std::span(words).subspan(2));
  return fail("see the comment in way_main.cpp");
}
