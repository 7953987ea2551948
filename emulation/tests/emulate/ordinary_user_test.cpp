// SPDX-License-Identifier: MIT
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>
#include <cstddef>

#include "emulation/tests/emulate/world_fixture.hpp"

namespace hbmwire::emulate_test {
namespace {

using ::testing::HasSubstr;

TEST_F(OrdinaryUser, KeepsItsIdsAndSeesTheDevices) {
  const auto seen =
      shell({"--nics", "2"},
            "id -u; id -g; ls /dev/infiniband; cat /sys/class/infiniband/emu1/node_type; "
            "cat /sys/class/net/lo/mtu; grep CapEff /proc/self/status; "
            "echo x > /dev/infiniband/uverbs0 && echo x > /dev/null && echo written",
            nobody());
  EXPECT_EQ(seen.exit_code, 0) << seen.err;
  EXPECT_EQ(seen.out,
            "65534\n65534\nrdma_cm\nuverbs0\nuverbs1\n1: "
            "CA\n65536\nCapEff:\t0000000000000000\nwritten\n");
}

TEST_F(OrdinaryUser, SharesAUserNamespaceWithItsRunsInTheSameFabric) {
  constexpr const char* kShow = "readlink /proc/self/ns/user";
  Process first(emulate({"--fabric", "f"}, std::string(kShow) + "; exec sleep 100"), nobody());
  ASSERT_TRUE(first.wait_for_output("\n"));
  const auto second = shell({"--fabric", "f"}, kShow, nobody());
  const auto apart = shell({}, kShow, nobody());
  first.signal(SIGTERM);
  const auto outcome = first.finish();
  EXPECT_EQ(outcome.out, second.out);
  EXPECT_NE(outcome.out, apart.out);
}

TEST_F(OrdinaryUser, StaysInTheFabricsNamespaceAfterItsMakerIsKilled) {
  constexpr const char* kShow = "readlink /proc/self/ns/user";
  Process first(emulate({"--fabric", "f"}, std::string(kShow) + "; exec sleep 1"), nobody());
  ASSERT_TRUE(first.wait_for_output("\n"));
  first.signal(SIGKILL);
  const auto second = shell({"--fabric", "f"}, kShow, nobody());
  EXPECT_EQ(first.finish().out, second.out);
}

TEST_F(OrdinaryUser, CleansUpAfterEverythingIsKilledAtOnce) {
  Process process(emulate({"--name", "x"}, "sleep 100 & echo ready; wait"),
                  {.as_nobody = true, .in_child = [] { ::setpgid(0, 0); }});
  ASSERT_TRUE(process.wait_for_output("ready"));
  ::kill(-process.pid(), SIGKILL);
  process.finish();
}

// Forbids namespaces as the seccomp profile of a default container does.
void forbid_namespaces() {
  std::array program = {
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_unshare, 0, 1),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) ::_exit(122);
}

TEST_F(OrdinaryUser, NamesMissingThingsInOneSentence) {
  ASSERT_EQ(make_own_dev(), "");
  const auto refused = shell({}, "true", {.as_nobody = true, .in_child = forbid_namespaces});
  EXPECT_EQ(refused.exit_code, 125);
  EXPECT_THAT(refused.err, HasSubstr("cannot create a user namespace: Operation not permitted"));
  EXPECT_THAT(refused.err, HasSubstr("mknod -m 666 /dev/infiniband/uverbs0 c 1 3"));
  EXPECT_EQ(std::count(refused.err.begin(), refused.err.end(), '\n'), 1);
}

TEST_F(OrdinaryUser, NeedsNoNamespaceForCardsAlone) {
  const auto seen = shell({"--nics", "0"}, "ls $SYSFS_PATH/class/accel",
                          {.as_nobody = true, .in_child = forbid_namespaces});
  EXPECT_EQ(seen.exit_code, 0) << seen.err;
  EXPECT_EQ(seen.out, "accel0\naccel_controlD0\n");
  EXPECT_THAT(seen.err,
              HasSubstr("without a view of /dev and /sys (cannot create a user namespace"));
}

}  // namespace
}  // namespace hbmwire::emulate_test
