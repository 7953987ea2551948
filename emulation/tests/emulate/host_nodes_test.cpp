// SPDX-License-Identifier: MIT
// Nodes in /dev itself, for a run without a view of its own. The tests use their own /dev, because
// other tests and users of the machine would otherwise see the nodes. An emulated node has the
// number of /dev/null, 1:3; a node with another number stands for a real device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "emulation/tests/emulate/world_fixture.hpp"
#include "emulation/tool/namespaces.hpp"

namespace hbmwire::emulate_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class HostNodes : public World {
 protected:
  void SetUp() override {
    World::SetUp();
    if (IsSkipped()) return;
    if (::geteuid() != 0) GTEST_SKIP() << "only root may make device nodes";
    const auto reason = make_own_dev();
    if (!reason.empty()) GTEST_SKIP() << "no /dev of the test's own: " << reason;
    ran_ = true;
  }

  void TearDown() override {
    World::TearDown();
    if (ran_) {
      EXPECT_FALSE(fs::exists("/dev/infiniband"));
      EXPECT_FALSE(fs::exists("/dev/accel"));
      EXPECT_FALSE(fs::exists("/dev/.hbmwire-nodes"));
    }
  }

 private:
  bool ran_ = false;
};

constexpr const char* kReady = "echo ready; exec sleep 100";

TEST_F(HostNodes, NodesAreMadeAndRemoved) {
  const auto seen = shell(
      {"--no-namespaces", "--nics", "2"},
      "stat -c '%n %a %t:%T' /dev/infiniband/*; ls $SYSFS_PATH/class/infiniband; ls /dev/accel");
  EXPECT_EQ(seen.out,
            "/dev/infiniband/rdma_cm 666 1:3\n/dev/infiniband/uverbs0 666 "
            "1:3\n/dev/infiniband/uverbs1 666 1:3\nemu0\nemu1\n"
            "accel0\naccel_controlD0\n");
  EXPECT_THAT(seen.err, HasSubstr("without a view of /dev and /sys (--no-namespaces)"));
}

TEST_F(HostNodes, NodesLastAsLongAsAnyWorldNeedsThem) {
  Process first(emulate({"--no-namespaces"}, kReady));
  ASSERT_TRUE(first.wait_for_output("ready"));
  EXPECT_EQ(shell({"--no-namespaces", "--nics", "2"}, "ls /dev/infiniband").out,
            "rdma_cm\nuverbs0\nuverbs1\n");
  EXPECT_TRUE(fs::exists("/dev/infiniband/uverbs0"));
  first.signal(SIGTERM);
  first.finish();
}

TEST_F(HostNodes, NodesGoWhenEverythingIsKilledAtOnce) {
  Process process(emulate({"--no-namespaces"}, kReady), {.in_child = [] { ::setpgid(0, 0); }});
  ASSERT_TRUE(process.wait_for_output("ready"));
  ::kill(-process.pid(), SIGKILL);
  process.finish();
  EXPECT_TRUE(becomes_true([] { return !fs::exists("/dev/.hbmwire-nodes"); }));
}

TEST_F(HostNodes, NodesServeAnotherUserWhileTheyAreThere) {
  Process first(emulate({"--no-namespaces"}, kReady));
  ASSERT_TRUE(first.wait_for_output("ready"));
  const auto user = shell({"--no-namespaces"}, "ls /dev/infiniband", {.as_nobody = true});
  EXPECT_EQ(user.out, "rdma_cm\nuverbs0\n") << user.err;
  const auto refused = shell({"--no-namespaces", "--nics", "2"}, "true", {.as_nobody = true});
  EXPECT_EQ(refused.exit_code, 125);
  EXPECT_THAT(refused.err, HasSubstr("cannot make /dev/infiniband/uverbs1: Permission denied"));
  first.signal(SIGTERM);
  first.finish();
}

TEST_F(HostNodes, TheNextRunSweepsNodesWhenTheJanitorIsKilledToo) {
  Process process(emulate({"--no-namespaces"}, kReady), {.in_child = [] { ::setpgid(0, 0); }});
  ASSERT_TRUE(process.wait_for_output("ready"));
  ASSERT_TRUE(becomes_true([&] { return janitors().size() == 1; }));
  ::kill(janitors().front(), SIGKILL);
  ::kill(-process.pid(), SIGKILL);
  process.finish();
  EXPECT_TRUE(fs::exists("/dev/infiniband/uverbs0"));
  EXPECT_EQ(shell({}, "true").exit_code, 0);
}

TEST_F(HostNodes, ExistingNodesAreLeftAlone) {
  ASSERT_EQ(::mkdir("/dev/infiniband", 0755), 0);
  ASSERT_EQ(::mknod("/dev/infiniband/uverbs0", S_IFCHR | 0666, makedev(1, 3)), 0);
  EXPECT_EQ(shell({"--no-namespaces", "--nics", "2"}, "ls /dev/infiniband").out,
            "rdma_cm\nuverbs0\nuverbs1\n");
  EXPECT_TRUE(fs::exists("/dev/infiniband/uverbs0"));
  EXPECT_FALSE(fs::exists("/dev/infiniband/uverbs1"));
  // For an ordinary user a node suffices that an administrator has made.
  const auto user =
      shell({"--no-namespaces", "--gaudi", "0"}, "ls /dev/infiniband", {.as_nobody = true});
  EXPECT_EQ(user.out, "uverbs0\n") << user.err;

  fs::remove("/dev/infiniband/uverbs0");
  ASSERT_EQ(::mknod("/dev/infiniband/uverbs0", S_IFCHR | 0666, makedev(1, 5)), 0);
  const auto refused = shell({"--no-namespaces", "--nics", "1"}, "true");
  EXPECT_EQ(refused.exit_code, 125);
  EXPECT_THAT(refused.err, HasSubstr("/dev/infiniband/uverbs0 belongs to a real device"));

  // A view hides the real device; COMMAND sees only the emulated one.
  if (emulation::tool::try_namespaces()) {
    EXPECT_EQ(
        shell({"--nics", "2"}, "stat -c '%n %t:%T' /dev/infiniband/*").out,
        "/dev/infiniband/rdma_cm 1:3\n/dev/infiniband/uverbs0 1:3\n/dev/infiniband/uverbs1 1:3\n");
  }
  fs::remove_all("/dev/infiniband");
}

}  // namespace
}  // namespace hbmwire::emulate_test
