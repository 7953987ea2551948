// SPDX-License-Identifier: MIT
// A node's NICs get GIDs for the addresses of the network namespace in which the node is made.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "emulation/tests/emulate/world_fixture.hpp"
#include "emulation/tool/interfaces.hpp"

namespace hbmwire::emulate_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// An interface with addresses of both families, one without addresses, and one that is down.
constexpr const char* kNetwork =
    "set -e; ip link set lo up; "
    "ip link add ve0 address 02:00:00:00:77:01 type veth peer name ve1; "
    "ip link add ve2 type veth peer name ve3; "
    "ip addr add 10.77.1.2/24 dev ve0; ip addr add 10.77.1.3/24 dev ve0 label ve0:1; "
    "ip addr add fd00:77::2/64 dev ve0 nodad; ip addr add 10.77.2.2/24 dev ve2; "
    "ip link set ve0 up; ip link set ve1 addrgenmode none; ip link set ve1 up; ";

// Takes a NIC and a port. Prints the GIDs that the port has beyond the usual four, those from
// number 4 on: "<number> <gid> <type> <interface>". The type of an empty entry cannot be read.
constexpr const char* kShow =
    "cd $SYSFS_PATH/class/infiniband/$1/ports/$2 && for i in $(seq 4 31); do "
    "t=$(cat gid_attrs/types/$i 2>/dev/null) || continue; "
    "echo $i $(cat gids/$i) $t $(cat gid_attrs/ndevs/$i); done";

class NetworkNamespace : public World {
 protected:
  void SetUp() override {
    World::SetUp();
    if (IsSkipped()) return;
    const auto possible = run(in_namespace("true"));
    if (possible.exit_code != 0) GTEST_SKIP() << "no network namespace here: " << possible.err;
  }

  static std::vector<std::string> in_namespace(const std::string& script) {
    // An ordinary user may create a network namespace within a user namespace.
    const char* const flags = ::geteuid() == 0 ? "-n" : "-Urn";
    return {"unshare", flags, "sh", "-c", script};
  }

  [[nodiscard]] std::string emulate_here(const std::string& options,
                                         const std::string& command) const {
    return "\"" + program() + "\" --quiet --gaudi 0 --dir " + directory().string() + " " + options +
           " -- " + command;
  }
};

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string one; std::getline(stream, one);) lines.push_back(one);
  return lines;
}

const std::vector<std::string> kGidsOfVe0 = {
    "4 fe80:0000:0000:0000:0000:00ff:fe00:7701 IB/RoCE v1 ve0",
    "5 fe80:0000:0000:0000:0000:00ff:fe00:7701 RoCE v2 ve0",
    "6 0000:0000:0000:0000:0000:ffff:0a4d:0102 IB/RoCE v1 ve0",
    "7 0000:0000:0000:0000:0000:ffff:0a4d:0102 RoCE v2 ve0",
    "8 0000:0000:0000:0000:0000:ffff:0a4d:0103 IB/RoCE v1 ve0",
    "9 0000:0000:0000:0000:0000:ffff:0a4d:0103 RoCE v2 ve0",
    "10 fd00:0077:0000:0000:0000:0000:0000:0002 IB/RoCE v1 ve0",
    "11 fd00:0077:0000:0000:0000:0000:0000:0002 RoCE v2 ve0"};

TEST_F(NetworkNamespace, ANicGetsTheAddressesOfItsInterface) {
  const auto seen = run(
      in_namespace(kNetwork + emulate_here("", std::string("sh -c '") + kShow + "' sh emu0 1")));
  EXPECT_EQ(seen.exit_code, 0) << seen.err;
  EXPECT_EQ(lines_of(seen.out), kGidsOfVe0);
}

TEST_F(NetworkNamespace, InterfacesAreDealtOutToThePorts) {
  const std::string second = "ip link set ve2 up; ";
  const auto show = [&](const std::string& where) {
    const auto seen = run(in_namespace(
        kNetwork + second +
        emulate_here("--nics 2 --ports 2", std::string("sh -c '") + kShow + "' sh " + where)));
    EXPECT_EQ(seen.exit_code, 0) << seen.err;
    return lines_of(seen.out);
  };
  EXPECT_EQ(show("emu0 1").size(), kGidsOfVe0.size());
  EXPECT_THAT(show("emu0 2"), ::testing::Contains(HasSubstr("ffff:0a4d:0202 RoCE v2 ve2")));
  EXPECT_THAT(show("emu1 1"), IsEmpty());
  EXPECT_THAT(show("emu1 2"), IsEmpty());
}

TEST_F(NetworkNamespace, ANamespaceWithoutAnInterfaceAddsNoGids) {
  const auto seen = run(in_namespace(
      "ip link set lo up; " + emulate_here("", std::string("sh -c '") + kShow + "' sh emu0 1")));
  EXPECT_EQ(seen.exit_code, 0) << seen.err;
  EXPECT_EQ(seen.out, "");
}

TEST_F(NetworkNamespace, IbvDevinfoShowsTheAddresses) {
  const auto seen = run(in_namespace(kNetwork + emulate_here("", "ibv_devinfo -v -d emu0")));
  EXPECT_EQ(seen.exit_code, 0) << seen.err;
  EXPECT_THAT(seen.out, HasSubstr("GID[  6]:\t\t0000:0000:0000:0000:0000:ffff:0a4d:0102, RoCE v1"));
  EXPECT_THAT(seen.out, HasSubstr("GID[  7]:\t\t::ffff:10.77.1.2, RoCE v2"));
  EXPECT_THAT(seen.out, HasSubstr("GID[ 11]:\t\tfd00:77::2, RoCE v2"));
  EXPECT_EQ(seen.out.find("GID[ 12]"), std::string::npos) << seen.out;
}

TEST_F(NetworkNamespace, JoiningRunsSeeTheAddressesOfTheNodesMaker) {
  // A second run of the node sees the same table, even from an empty namespace. With the variables
  // set it would refuse to start, because it would seem to be inside the first run.
  const auto seen = run(in_namespace(
      kNetwork + emulate_here("--name x",
                              "sh -c 'unset HBMWIRE_EMULATION_NODE HBMWIRE_EMULATION_FABRIC; "
                              "unshare -n " +
                                  emulate_here("--name x", std::string("sh -c \"$1\" sh emu0 1")) +
                                  "' sh '" + kShow + "'")));
  EXPECT_EQ(seen.exit_code, 0) << seen.err;
  EXPECT_EQ(lines_of(seen.out), kGidsOfVe0);
}

TEST_F(NetworkNamespace, AnOrdinaryUsersNicGetsTheAddresses) {
  if (::geteuid() != 0)
    GTEST_SKIP() << "only root can become an ordinary user; the other tests ran as one";
  const auto seen = run({"unshare", "-Urn", "sh", "-c",
                         kNetwork + emulate_here("", std::string("sh -c '") + kShow +
                                                         "; ibv_devinfo -d emu0 >&2' sh emu0 1")},
                        {.as_nobody = true});
  EXPECT_EQ(seen.exit_code, 0) << seen.err;
  EXPECT_EQ(lines_of(seen.out), kGidsOfVe0);
  EXPECT_THAT(seen.err, HasSubstr("PORT_ACTIVE"));
}

TEST(LinkLocal, AnAddressIsMadeFromTheMacAsTheKernelDoes) {
  const auto gid = emulation::tool::link_local_of({0x00, 0x15, 0x5d, 0x0a, 0x0b, 0x0c});
  EXPECT_THAT(gid, ElementsAre(0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x02, 0x15, 0x5d, 0xff, 0xfe, 0x0a,
                               0x0b, 0x0c));
}

}  // namespace
}  // namespace hbmwire::emulate_test
