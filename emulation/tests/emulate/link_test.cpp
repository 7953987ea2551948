// SPDX-License-Identifier: MIT
// --link, used from outside the node.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "emulation/tests/emulate/world_fixture.hpp"
#include "emulation/tool/links.hpp"

namespace hbmwire::emulate_test {
namespace {

using emulation::tool::LinkChange;
using ::testing::HasSubstr;

class Link : public World {
 protected:
  /// Runs `hbmwire emulate --dir <own>` with these arguments and without a COMMAND.
  Process::Outcome change(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {program(), "--dir", directory().string()});
    return run(arguments);
  }
};

class ViewedLink : public ViewedWorld {};

TEST_F(ViewedLink, AChangeShowsInSys) {
  Process first(emulate({"--name", "x"},
                        "cd /sys/class/infiniband/emu0/ports/1; echo ready; "
                        "while grep -q ACTIVE state; do sleep 0.01; done; cat state phys_state"));
  ASSERT_TRUE(first.wait_for_output("ready\n"));
  EXPECT_EQ(run({program(), "--dir", directory().string(), "--name", "x", "--link", "emu0=down"})
                .exit_code,
            0);
  EXPECT_EQ(first.finish().out, "ready\n1: DOWN\n3: Disabled\n");
}

TEST_F(Link, IbvAsyncwatchSeesAChange) {
  Process watch(emulate({"--fabric", "f", "--name", "x"}, "exec ibv_asyncwatch"));
  ASSERT_TRUE(watch.wait_for_output("async event FD"));
  for (const char* state : {"down", "up"}) {
    const auto changed =
        change({"--fabric", "f", "--name", "x", "--link", std::string("emu0/1=") + state});
    EXPECT_EQ(changed.exit_code, 0) << changed.err;
  }
  EXPECT_TRUE(watch.wait_for_output("event_type IBV_EVENT_PORT_ERR (10), port 1"));
  EXPECT_TRUE(watch.wait_for_output("event_type IBV_EVENT_PORT_ACTIVE (9), port 1"))
      << watch.output();
  watch.signal(SIGTERM);
  watch.finish();
}

TEST_F(Link, ALinkCanBeDownBeforeCommandStarts) {
  const auto seen = shell({"--nics", "2", "--link", "emu1=down"}, "ibv_devinfo | grep state:");
  EXPECT_EQ(seen.exit_code, 0) << seen.err;
  EXPECT_THAT(seen.out, ::testing::MatchesRegex("[ \t]*state:[ \t]*PORT_ACTIVE \\(4\\)\n"
                                                "[ \t]*state:[ \t]*PORT_DOWN \\(1\\)\n"));
}

TEST_F(Link, AChangeNeedsANodeThatRuns) {
  const auto nameless = change({"--link", "emu0=down"});
  EXPECT_EQ(nameless.exit_code, 125);
  EXPECT_THAT(nameless.err, HasSubstr("say which by --name X"));
  const auto unknown = change({"--name", "x", "--link", "emu0=down"});
  EXPECT_EQ(unknown.exit_code, 125);
  EXPECT_THAT(unknown.err, HasSubstr("no node runs in "));
  EXPECT_TRUE(nothing_is_left());
}

TEST_F(Link, AWrongChangePreventsTheOthers) {
  Process first(emulate({"--name", "x"}, "echo ready; read -r line; exec sleep 100"));
  ASSERT_TRUE(first.wait_for_output("ready"));
  const auto refused = change({"--name", "x", "--link", "emu0=down", "--link", "emu1=down"});
  EXPECT_EQ(refused.exit_code, 125);
  EXPECT_THAT(refused.err, HasSubstr("node x has no NIC emu1"));
  EXPECT_THAT(shell({"--name", "x"}, "ibv_devinfo -d emu0").out, HasSubstr("PORT_ACTIVE"));
  first.signal(SIGTERM);
  first.finish();
}

TEST_F(Link, ANewNodesLinkIsUpAlthoughItsPredecessorsWasDown) {
  Process other(emulate({"--fabric", "f", "--name", "other"}, "echo ready; exec sleep 100"));
  ASSERT_TRUE(other.wait_for_output("ready"));
  // A node has up to 32 ports, so the second node's first one is port 33 of the fabric. "b" gets
  // the number of the ended "a", and so the same port.
  constexpr const char* kShow =
      "cat $SYSFS_PATH/class/infiniband/emu0/ports/1/fabric_port; "
      "ibv_devinfo -d emu0 | grep -o 'PORT_[A-Z]*'";
  EXPECT_EQ(shell({"--fabric", "f", "--name", "a", "--link", "emu0=down"}, kShow).out,
            "33\nPORT_DOWN\n");
  EXPECT_EQ(shell({"--fabric", "f", "--name", "b"}, kShow).out, "33\nPORT_ACTIVE\n");
  other.signal(SIGTERM);
  other.finish();
}

TEST_F(Link, ALinkChangesAlthoughAListenerWasKilled) {
  Process watch(emulate({"--name", "x"}, "ibv_asyncwatch & echo $!; wait $!; exec sleep 100"));
  ASSERT_TRUE(watch.wait_for_output("async event FD"));
  ::kill(static_cast<pid_t>(std::strtol(watch.output().c_str(), nullptr, 10)), SIGKILL);
  EXPECT_EQ(change({"--name", "x", "--link", "emu0=down"}).exit_code, 0);
  EXPECT_THAT(shell({"--name", "x"}, "ibv_devinfo").out, HasSubstr("PORT_DOWN"));
  watch.signal(SIGTERM);
  watch.finish();
}

TEST(LinkOption, OnlyTheExactFormIsAccepted) {
  using emulation::tool::parse_link;
  EXPECT_EQ(parse_link("emu0=down"), (LinkChange{.nic = 0, .port = 0, .up = false}));
  EXPECT_EQ(parse_link("emu15/2=up"), (LinkChange{.nic = 15, .port = 2, .up = true}));
  for (const char* wrong : {"", "emu", "emu=up", "emu0", "emu0=", "emu0/=up", "emu0/0=up",
                            "emu-1=up", "emu0=upp", "emu0/1/1=up", "xemu0=up", "emu0 =up"}) {
    EXPECT_FALSE(parse_link(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace hbmwire::emulate_test
