// SPDX-License-Identifier: MIT
#include "hbmwire/host_port.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <string>

#include "wire/listening_socket.hpp"
#include "wire/resolve.hpp"

namespace hbmwire {
namespace {

using namespace std::chrono_literals;

struct Good {
  const char* text;
  const char* host;
  std::uint16_t port;
};

// With a port, or without one and the default 9.
const Good kGood[] = {
    {"node2:7000", "node2", 7000},
    {"10.0.0.2:1", "10.0.0.2", 1},
    {"[::1]:65535", "::1", 65535},
    {"[fe80::1%eth0]:7000", "fe80::1%eth0", 7000},
    {"[::ffff:10.0.0.1]:7000", "::ffff:10.0.0.1", 7000},
    {"tcp://node2:7000", "node2", 7000},
    {"tcp://[::1]:7000/", "::1", 7000},
    {"node2", "node2", 9},
    {"::1", "::1", 9},
    {"::", "::", 9},
    {"[::1]", "::1", 9},
    {"fe80::1%eth0", "fe80::1%eth0", 9},
    {"tcp://node2", "node2", 9},
    {"tcp://[::1]/", "::1", 9},
};

TEST(HostPort, SplitsAllWrittenForms) {
  for (const Good& good : kGood) {
    const auto split = split_host_port(good.text, 9);
    ASSERT_TRUE(split) << good.text << ": " << describe(split.error());
    EXPECT_EQ(split->host, good.host) << good.text;
    EXPECT_EQ(split->port, good.port) << good.text;
    EXPECT_EQ(split_host_port(good.text).has_value(), good.port != 9) << good.text;
  }
}

struct Bad {
  const char* text;
  const char* why;
};

const Bad kBad[] = {
    {"", "the host is missing"},
    {":7000", "the host is missing"},
    {"node2", "the port is missing"},
    {"::1", "the port is missing: an IPv6 address with its port is [IPV6]:PORT"},
    {"[::1]", "the port is missing"},
    {"node2:", "a port is a number from 1 to 65535"},
    {"node2:0", "a port is a number from 1 to 65535"},
    {"node2:65536", "a port is a number from 1 to 65535"},
    {"node2:-1", "a port is a number from 1 to 65535"},
    {"node2:70x", "a port is a number from 1 to 65535"},
    {"node2:99999999999999999999", "a port is a number from 1 to 65535"},
    {"[::1", "an IPv6 address with its port is [IPV6]:PORT"},
    {"[::1]7000", "an IPv6 address with its port is [IPV6]:PORT"},
    {"[node2]:7000", "the text in the brackets is no IPv6 address"},
    {"[]:7000", "the text in the brackets is no IPv6 address"},
    {"[fe80::1%]:7000", "the text in the brackets is no IPv6 address"},
    {"a:b:c", "it is no IPv6 address"},
    {"http://node2:7000", "tcp://"},
    {"node 2:7000", "no blanks"},
    {"node2\n:7000", "no blanks"},
    {"tcp://node2/path", "no path"},
    {"tcp://", "the host is missing"},
};

TEST(HostPort, ReportsTheFault) {
  for (const Bad& bad : kBad) {
    const auto split = split_host_port(bad.text);
    ASSERT_FALSE(split) << bad.text;
    EXPECT_EQ(split.error().code, Errc::invalid_argument) << bad.text;
    EXPECT_NE(std::string(split.error().call).find(bad.why), std::string::npos)
        << bad.text << ": " << split.error().call;
    EXPECT_EQ(describe(split.error()).find('\n'), std::string::npos);
  }
}

RC_GTEST_PROP(HostPort, SplitsWhatWasJoined, ()) {
  const auto host = *rc::gen::element<std::string>("node2", "10.0.0.2", "::1", "fe80::1%eth0",
                                                   "2001:db8::7", "a-b.example", "::");
  const auto port = *rc::gen::inRange<int>(1, 65536);
  const std::string text = join_host_port(host, static_cast<std::uint16_t>(port));
  const auto split = split_host_port(text);
  RC_ASSERT(split.has_value());
  RC_ASSERT(split->host == host);
  RC_ASSERT(split->port == port);
  const auto url = split_host_port("tcp://" + text);
  RC_ASSERT(url.has_value());
  RC_ASSERT(url->host == host);
  RC_ASSERT(url->port == port);
}

RC_GTEST_PROP(HostPort, TakesNoTextThatItCannotJoinAgain, (const std::string& text)) {
  const auto split = split_host_port(text);
  if (!split) return;
  RC_ASSERT(split->port != 0 && !split->host.empty());
  const auto again = split_host_port(join_host_port(split->host, split->port));
  RC_ASSERT(again.has_value());
  RC_ASSERT(again->host == split->host);
  RC_ASSERT(again->port == split->port);
}

TEST(HostPort, JoinsBracketsOnceOnly) {
  EXPECT_EQ(join_host_port("::1", 7), "[::1]:7");
  EXPECT_EQ(join_host_port("[::1]", 7), "[::1]:7");
  EXPECT_EQ(join_host_port("node2", 7), "node2:7");
}

TEST(HostPort, AMissingInterfaceIsAnErrorAtOnce) {
  const auto found = wire::resolve("fe80::1%nosuch0", 7, false, {Deadline::after(8s), -1});
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().hint, Hint::address_scope) << describe(found.error());
}

TEST(ListeningSocket, TakesAnAddressAsPeopleWriteIt) {
  for (const char* address : {"127.0.0.1", "[::1]", "::1", "tcp://127.0.0.1"}) {
    const auto listening = wire::listen_on(address, 0);
    ASSERT_TRUE(listening) << address << ": " << describe(listening.error());
    EXPECT_NE(listening->port, 0) << address;
  }
  const auto two_ports = wire::listen_on("127.0.0.1:7000", 7001);
  ASSERT_FALSE(two_ports);
  EXPECT_EQ(two_ports.error().code, Errc::invalid_argument);
}

}  // namespace
}  // namespace hbmwire
