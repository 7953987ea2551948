// SPDX-License-Identifier: MIT
// COMMAND's view of the machine, and the nodes that reach each other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "emulation/tests/emulate/world_fixture.hpp"

namespace hbmwire::emulate_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kNode = "echo $HBMWIRE_EMULATION_NODE";
constexpr const char* kFabric = "echo $HBMWIRE_EMULATION_FABRIC";

// The sizes of a card's files `device`, `hbm` (a Gaudi2 has 96 GiB) and `state` are printed.
TEST_F(World, TellsCommandWhereEverythingIs) {
  const auto seen = shell({"--nics", "2", "--gaudi", "3"}, R"(
    test "$HBMWIRE_EMULATED" = 1 && test -z "$HBMWIRE_EMULATION_FAULTS" &&
    test "$SYSFS_PATH" = "$HBMWIRE_EMULATION_NODE/sys" &&
    case $HBMWIRE_EMULATION_NODE in "$HBMWIRE_EMULATION_FABRIC"/nodes/*) ;; *) exit 1;; esac &&
    test -e "$IBV_DRIVERS.so" && test -e "$LD_LIBRARY_PATH/libhl-thunk.so" &&
    cat $SYSFS_PATH/class/infiniband/emu1/fw_ver && stat -c %s $HBMWIRE_EMULATION_NODE/gaudi*/*)");
  EXPECT_EQ(seen.exit_code, 0);
  EXPECT_EQ(seen.out, "1.0.emulated\n0\n103079215104\n0\n0\n103079215104\n0\n0\n103079215104\n0\n");
  EXPECT_THAT(seen.err, StartsWith("emulated: fabric run-"));
  EXPECT_THAT(seen.err,
              HasSubstr("2 NICs (emu0 to emu1), 3 gaudi2 cards, in " + directory().string()));
}

TEST_F(World, SaysNothingWhenQuiet) { EXPECT_EQ(shell({"--quiet"}, "true").err, ""); }

// An H100 has 80 GiB, an MI300X 192 GiB. The file `posted` is as large as the memory and a table of
// 64 KiB.
TEST_F(World, HasGpusIfTheOptionsAskForThem) {
  const auto seen = shell({"--gaudi", "0", "--cuda", "2", "--rocm", "1"},
                          "cd $HBMWIRE_EMULATION_NODE && stat -c '%n %s' cuda*/* rocm*/*");
  EXPECT_EQ(seen.out,
            "cuda0/device 0\ncuda0/hbm 85899345920\ncuda0/state 0\n"
            "cuda1/device 0\ncuda1/hbm 85899345920\ncuda1/state 0\n"
            "rocm0/device 0\nrocm0/hbm 206158430208\nrocm0/state 0\n");
  EXPECT_THAT(seen.err, HasSubstr("0 gaudi2 cards, 2 H100 GPUs, 1 MI300X GPU, in "));
  EXPECT_EQ(shell({}, "ls -d $HBMWIRE_EMULATION_NODE/cuda* $HBMWIRE_EMULATION_NODE/rocm*").out, "");
  EXPECT_EQ(shell({"--cuda", "1", "--like-hardware", "flush"},
                  "stat -c %s $HBMWIRE_EMULATION_NODE/cuda0/posted")
                .out,
            "85899411456\n");
}

TEST_F(World, PutsItsPathsBeforeTheValuesOfVariables) {
  const auto seen =
      run({"env", "LD_LIBRARY_PATH=/x", "IBV_DRIVERS=/y", program(), "--dir", directory().string(),
           "--", "sh", "-c", "echo $LD_LIBRARY_PATH $IBV_DRIVERS"});
  EXPECT_THAT(seen.out, HasSubstr("/emulation:/x "));
  EXPECT_THAT(seen.out, HasSubstr("/libhbmwire_nic:/y\n"));
}

TEST_F(World, TakesItsPlaceFromTheEnvironment) {
  const auto seen = run({"env", "HBMWIRE_EMULATION_DIR=" + directory().string(), program(), "--",
                         "sh", "-c", kFabric});
  EXPECT_THAT(seen.out, StartsWith(directory().string() + "/hbmwire-"));
}

TEST_F(ViewedWorld, WarnsOfASmallPlace) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may mount a small place";
  const auto seen = run({"unshare", "-m", "sh", "-c",
                         "mount -t tmpfs -o size=32m none " + directory().string() + " && exec '" +
                             program() + "' --dir " + directory().string() + " -- true"});
  EXPECT_EQ(seen.exit_code, 0);
  EXPECT_THAT(seen.err,
              HasSubstr("MiB are free for the cards' memory: start the container with --shm-size"));
}

TEST_F(ViewedWorld, SaysWhenThePlaceIsFull) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may mount a small place";
  const auto refused =
      run({"unshare", "-m", "sh", "-c",
           "mount -t tmpfs -o size=64k none " + directory().string() + " && '" + program() +
               "' --dir " + directory().string() + " -- true; rc=$?; find " + directory().string() +
               " -mindepth 1; exit $rc"});
  EXPECT_EQ(refused.exit_code, 125);
  EXPECT_EQ(refused.out, "");
  EXPECT_THAT(refused.err, HasSubstr("No space left on device"));
}

TEST_F(ViewedWorld, ShowsTheDevicesInDevAndSys) {
  const auto seen = shell({"--nics", "2", "--gaudi", "2"}, R"(
    stat -c '%n %F %t:%T' /dev/infiniband/* /dev/accel/* && ls /sys/class/infiniband /sys/class/accel &&
    cat /sys/class/infiniband/emu0/ports/1/state /sys/class/accel/accel1/device/device_type &&
    cat /sys/bus/pci/devices/$(cat /sys/class/accel/accel1/device/pci_addr)/vendor)");
  EXPECT_EQ(seen.exit_code, 0) << seen.err;
  EXPECT_EQ(seen.out,
            "/dev/infiniband/rdma_cm character special file 1:3\n"
            "/dev/infiniband/uverbs0 character special file 1:3\n"
            "/dev/infiniband/uverbs1 character special file 1:3\n"
            "/dev/accel/accel0 character special file 1:3\n"
            "/dev/accel/accel1 character special file 1:3\n"
            "/dev/accel/accel_controlD0 character special file 1:3\n"
            "/dev/accel/accel_controlD1 character special file 1:3\n"
            "/sys/class/accel:\naccel0\naccel1\naccel_controlD0\naccel_controlD1\n\n"
            "/sys/class/infiniband:\nemu0\nemu1\n4: ACTIVE\nGAUDI2\n0x1da3\n");
}

TEST_F(ViewedWorld, ShowsGpusInDevAndSys) {
  const auto seen = shell({"--gaudi", "0", "--cuda", "2", "--rocm", "2"}, R"(
    stat -c '%n %t:%T' /dev/nvidia* /dev/kfd /dev/dri/* &&
    cat /sys/class/drm/renderD129/device/vendor && grep -l cuda /sys/bus/pci/devices/*/emulated_as | wc -l)");
  EXPECT_EQ(seen.out,
            "/dev/nvidia-uvm 1:3\n/dev/nvidia0 1:3\n/dev/nvidia1 1:3\n/dev/nvidiactl 1:3\n"
            "/dev/kfd 1:3\n/dev/dri/renderD128 1:3\n/dev/dri/renderD129 1:3\n0x1002\n2\n")
      << seen.err;
  EXPECT_EQ(shell({}, "ls -d /dev/nvidia* /dev/kfd").out, "");
}

TEST_F(ViewedWorld, EachNodeIsAMachineOfItsOwn) {
  constexpr const char* kBootId = "cat /proc/sys/kernel/random/boot_id";
  constexpr const char* kForm =
      "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\n";
  Process first(
      emulate({"--fabric", "f", "--name", "a"}, std::string(kBootId) + "; exec sleep 100"));
  ASSERT_TRUE(first.wait_for_output("\n"));
  const auto again = shell({"--fabric", "f", "--name", "a"}, kBootId).out;
  const auto other = shell({"--fabric", "f", "--name", "b"}, kBootId).out;
  EXPECT_THAT(again, ::testing::MatchesRegex(kForm));
  EXPECT_THAT(other, ::testing::MatchesRegex(kForm));
  EXPECT_NE(again, other);
  EXPECT_NE(again, run({"sh", "-c", kBootId}).out);
  first.signal(SIGTERM);
  EXPECT_EQ(first.finish().out, again);
}

TEST_F(ViewedWorld, ShowsTheEmulatedKernelsConfigurationToEveryProgram) {
  constexpr const char* kLook = R"(
    wanted='^CONFIG_PCI_P2PDMA=y|^CONFIG_DMABUF_MOVE_NOTIFY=y'
    grep -chE "$wanted" /boot/config-$(uname -r)
    if [ -e /proc/config.gz ]; then zcat /proc/config.gz | grep -cE "$wanted"; else echo 2; fi
    grep -cE '^# CONFIG_(PCI_P2PDMA|DMABUF_MOVE_NOTIFY) is not set' /boot/config-$(uname -r)
    test -z "$HBMWIRE_ROCM_KERNEL_CONFIG" && echo 'without a variable')";
  const auto seen = shell({"--rocm", "1"}, kLook);
  EXPECT_EQ(seen.out, "2\n2\n0\nwithout a variable\n") << seen.err;
  EXPECT_EQ(shell({}, "ls /boot | grep -v \"^config-$(uname -r)$\"").out,
            run({"sh", "-c", "ls /boot | grep -v \"^config-$(uname -r)$\""}).out)
      << "the rest of /boot is as it was";
  // The rest of the configuration is the machine's.
  constexpr const char* kOthers =
      "zcat /proc/config.gz | grep -vE 'CONFIG_PCI_P2PDMA|CONFIG_DMABUF_MOVE_NOTIFY' | sha256sum";
  if (::access("/proc/config.gz", R_OK) == 0) {
    EXPECT_EQ(shell({}, kOthers).out, run({"sh", "-c", kOthers}).out);
  }
}

TEST_F(World, NamesTheKernelsConfigurationWithoutAView) {
  const auto seen =
      shell({"--no-namespaces", "--nics", "0", "--rocm", "1"}, "cat $HBMWIRE_ROCM_KERNEL_CONFIG");
  EXPECT_EQ(seen.out, "CONFIG_PCI_P2PDMA=y\nCONFIG_DMABUF_MOVE_NOTIFY=y\n") << seen.err;
}

TEST_F(ViewedWorld, LibibumadReadsTheNics) {
  // The values that ibstat reads, through the library that ibstat uses.
  const auto seen = shell({"--nics", "2", "--ports", "2"}, R"(python3 -c '
import ctypes
umad = ctypes.CDLL("libibumad.so.3")
names = ctypes.create_string_buffer(20 * 32)
found = umad.umad_get_cas_names(names, 32)
print(found, sorted(names.raw[20 * i:20 * i + 20].split(b"\0")[0].decode() for i in range(found)))
for name in b"emu0", b"emu1":
    ca = ctypes.create_string_buffer(1 << 16)
    ports = [umad.umad_get_port(name, port, ctypes.create_string_buffer(1 << 16)) for port in (1, 2)]
    print(umad.umad_get_ca(name, ca), ports)
')");
  EXPECT_EQ(seen.exit_code, 0) << seen.err;
  EXPECT_EQ(seen.out, "2 ['emu0', 'emu1']\n0 [0, 0]\n0 [0, 0]\n");
}

TEST_F(ViewedWorld, LeavesTheRestOfDevAndSysAsItIs) {
  constexpr const char* kLook = R"(
    ls /sys/class/net /sys/devices/system/cpu; cat /sys/class/net/lo/mtu; cat /sys/devices/system/cpu/online
    ls -di /tmp; ls -d /dev/null /dev/pts /dev/shm /dev/fd /dev/stdin /dev/tty /dev/urandom; stat -c %F:%a /dev/shm /dev/pts
    ls /dev | grep -vxE 'infiniband|accel|kfd|nvidia.*'; readlink /dev/fd; head -c 3 /dev/zero | wc -c
    echo x > /dev/null && echo written)";
  EXPECT_EQ(shell({}, kLook).out, run({"sh", "-c", kLook}).out);
}

TEST_F(World, KeepsTwoAnonymousRunsApart) {
  Process first(emulate({}, "echo $HBMWIRE_EMULATION_FABRIC; read -r line"), {.input = ""});
  const auto one = shell({}, kFabric).out;
  const auto two = shell({}, kFabric).out;
  EXPECT_NE(one, two);
  EXPECT_NE(first.finish().out, one);
}

TEST_F(World, JoinsANodeByItsName) {
  Process first(emulate({"--name", "x", "--nics", "3", "--gaudi", "2", "--cuda", "1"},
                        std::string(kNode) + "; exec sleep 100"));
  ASSERT_TRUE(first.wait_for_output("\n"));
  const auto joined =
      shell({"--name", "x"}, std::string(kNode) + "; ls $SYSFS_PATH/class/infiniband");
  EXPECT_EQ(joined.out, directory().string() + "/hbmwire-" + std::to_string(::geteuid()) +
                            "/node-x/nodes/x\nemu0\nemu1\nemu2\n");
  EXPECT_EQ(shell({"--name", "x", "--nics", "3"}, "exit 5").exit_code, 5);

  const auto refused = shell({"--name", "x", "--nics", "4"}, "true");
  EXPECT_EQ(refused.exit_code, 125);
  EXPECT_THAT(refused.err, HasSubstr("node x exists with --nics 3, not 4"));
  EXPECT_THAT(shell({"--name", "x", "--gaudi", "1"}, "true").err,
              HasSubstr("exists with --gaudi 2, not 1"));
  EXPECT_THAT(shell({"--name", "x", "--cuda", "1"}, "ls $HBMWIRE_EMULATION_NODE").out,
              HasSubstr("\ncuda0\n"));
  EXPECT_THAT(shell({"--name", "x", "--cuda", "2"}, "true").err,
              HasSubstr("exists with --cuda 1, not 2"));
  EXPECT_THAT(shell({"--name", "x", "--rocm", "1"}, "true").err,
              HasSubstr("exists with --rocm 0, not 1"));
  EXPECT_EQ(shell({"--name", "x", "--bar", "large"}, "true").exit_code, 0);
  EXPECT_THAT(shell({"--name", "x", "--bar", "small"}, "true").err,
              HasSubstr("exists with --bar large, not small"));
  EXPECT_THAT(shell({"--name", "x", "--gaudi-kind", "gaudi3"}, "true").err,
              HasSubstr("exists with --gaudi-kind gaudi2, not gaudi3"));
  first.signal(SIGTERM);
  EXPECT_EQ(first.finish().exit_code, 128 + SIGTERM);
}

TEST_F(World, GivesTheNodesOfAFabricDifferentAddresses) {
  constexpr const char* kGid = "cat $SYSFS_PATH/class/infiniband/emu0/ports/1/gids/3";
  Process first(emulate({"--fabric", "f", "--name", "a"}, std::string(kGid) + "; exec sleep 100"));
  ASSERT_TRUE(first.wait_for_output("\n"));
  const auto anonymous = shell({"--fabric", "f"}, std::string(kFabric) + ";" + kGid);
  const auto named = shell({"--fabric", "f", "--name", "b"}, std::string(kFabric) + ";" + kGid);
  EXPECT_EQ(anonymous.out, named.out) << "the anonymous node's number is free again";
  EXPECT_THAT(named.out, HasSubstr("/f\n"));
  first.signal(SIGTERM);
  EXPECT_THAT(named.out, ::testing::Not(HasSubstr(first.finish().out)));
}

TEST_F(World, StartsAnewAfterTheLastProgramHasLeft) {
  EXPECT_EQ(shell({"--name", "x", "--nics", "2"}, "echo stale > $HBMWIRE_EMULATION_FABRIC/nic.shm")
                .exit_code,
            0);
  const auto anew = shell({"--name", "x", "--nics", "4"}, "ls $HBMWIRE_EMULATION_FABRIC").out;
  EXPECT_THAT(anew, HasSubstr("nodes\n"));
  EXPECT_THAT(anew, Not(HasSubstr("nic.shm")));
}

TEST_F(World, DoesNotNest) {
  const auto nested = shell({}, "'" + program() + "' -- true");
  EXPECT_EQ(nested.exit_code, 125);
  EXPECT_THAT(nested.err, HasSubstr("worlds do not nest"));
}

TEST_F(World, PassesOnAFaultPlan) {
  constexpr const char* kEcho = "printf %s \"$HBMWIRE_EMULATION_FAULTS\"";
  EXPECT_EQ(shell({"--faults", "flip,op=send"}, kEcho).out, "flip,op=send");
  const auto file = directory() / "plan";
  std::ofstream(file) << "flip,op=send  # the first\n\n# nothing\nfail,call=f\n";
  EXPECT_EQ(shell({"--faults", "@" + file.string()}, kEcho).out, "flip,op=send  ;;;fail,call=f;");
  std::filesystem::remove(file);
  EXPECT_EQ(shell({"--seed", "9", "--faults", "drop,p=0.5"}, kEcho).out, "seed=9;drop,p=0.5");
  const auto refused = shell({"--faults", "explode"}, "true");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("action 'explode' is not fail, flip, drop"));
}

TEST_F(World, ANodesNicsKeepTheBehaviourOfItsFirstRun) {
  constexpr const char* kShow =
      "sort $SYSFS_PATH/class/infiniband/emu0/behaviour | paste -sd ' ' ; echo ready; exec sleep "
      "100";
  Process first(
      emulate({"--name", "x", "--async=5us", "--seed", "4", "--without", "atomics"}, kShow));
  ASSERT_TRUE(first.wait_for_output("ready"));
  EXPECT_EQ(shell({"--name", "x"}, "true").exit_code, 0);
  EXPECT_EQ(shell({"--name", "x", "--async=5us"}, "true").exit_code, 0);
  const auto other = shell({"--name", "x", "--async=6us"}, "true");
  EXPECT_EQ(other.exit_code, 125);
  EXPECT_THAT(other.err, HasSubstr("the NICs of node x behave otherwise"));
  first.signal(SIGTERM);
  EXPECT_THAT(
      first.finish().out,
      HasSubstr("async_ns 5000 atomics 0 dmabuf 1 flush 0 last_wqe 1 latency_ns 0 max_cq 65535 "
                "max_cqe 1048576 max_mr 262143 max_qp 65533 max_srq 65535 "
                "rate_bits_per_s 0 relaxed 0 scatter 0 seed 4"));
}

}  // namespace
}  // namespace hbmwire::emulate_test
