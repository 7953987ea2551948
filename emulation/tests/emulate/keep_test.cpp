// SPDX-License-Identifier: MIT
// --keep: the machine's own accelerators beside emulated NICs. The test's own library, device nodes
// and sysfs stand for those of a machine with a card.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "emulation/tests/emulate/world_fixture.hpp"
#include "emulation/tool/kept_devices.hpp"
#include "emulation/tool/namespaces.hpp"

namespace hbmwire::emulate_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

/// A folder that is removed with this object.
class Folder {
 public:
  Folder() {
    std::string name = "/tmp/emulate-keep-XXXXXX";
    if (::mkdtemp(name.data()) != nullptr) path_ = name;
  }

  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  ~Folder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }

  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

/// A machine with a library of each vendor, on its LD_LIBRARY_PATH.
class Keep : public World {
 protected:
  void SetUp() override {
    World::SetUp();
    if (IsSkipped()) return;
    ASSERT_FALSE(machine_.path().empty());
    for (const char* name : {"libcuda.so.1", "libhl-thunk.so", "libSynapse.so",
                             "libhsa-runtime64.so.1", "libamdhip64.so.7"})
      fs::copy_file(HBMWIRE_STAND_IN_VENDOR, machine_.path() / name);
  }

  /// Which libraries of these names a program below emulate loads: its output has a line "<name>
  /// real", "<name> emulated" or "<name> missing" for each.
  [[nodiscard]] Process::Outcome loaded(std::vector<std::string> options,
                                        const std::string& names) const {
    auto command = emulate(std::move(options), R"(exec python3 -c '
import ctypes, sys
for name in sys.argv[1:]:
    try:
        print(name, "real" if hasattr(ctypes.CDLL(name), "stand_in_of_the_test") else "emulated")
    except OSError:
        print(name, "missing")
' )" + names);
    command.insert(command.begin(), {"env", "LD_LIBRARY_PATH=" + machine_.path().string()});
    return run(command);
  }

  void remove_library(const char* name) const { fs::remove(machine_.path() / name); }

 private:
  Folder machine_;
};

TEST_F(Keep, OnlyAKeptFamilyHasTheMachinesLibrary) {
  constexpr const char* kAll = "libcuda.so.1 libhl-thunk.so libSynapse.so libhsa-runtime64.so.1";
  const auto without = loaded({"--cuda", "1"}, kAll);
  EXPECT_EQ(without.out,
            "libcuda.so.1 emulated\nlibhl-thunk.so emulated\nlibSynapse.so emulated\n"
            "libhsa-runtime64.so.1 emulated\n")
      << without.err;
  const auto cuda = loaded({"--keep", "cuda"}, kAll);
  EXPECT_EQ(cuda.out,
            "libcuda.so.1 real\nlibhl-thunk.so emulated\nlibSynapse.so emulated\n"
            "libhsa-runtime64.so.1 emulated\n")
      << cuda.err;
  EXPECT_THAT(cuda.err,
              HasSubstr("1 NIC (emu0), 1 gaudi2 card, beside the machine's own NVIDIA GPUs, in "));
  const auto gaudi = loaded({"--keep", "gaudi"}, kAll);
  EXPECT_EQ(gaudi.out,
            "libcuda.so.1 emulated\nlibhl-thunk.so real\nlibSynapse.so real\n"
            "libhsa-runtime64.so.1 emulated\n")
      << gaudi.err;
  EXPECT_THAT(gaudi.err, HasSubstr("1 NIC (emu0), beside the machine's own Gaudi cards, in "));
  EXPECT_EQ(loaded({"--keep", "rocm"}, "libhsa-runtime64.so.1 libamdhip64.so.7 libcuda.so.1").out,
            "libhsa-runtime64.so.1 real\nlibamdhip64.so.7 real\nlibcuda.so.1 emulated\n");
}

TEST_F(Keep, SeveralFamiliesMayBeKept) {
  constexpr const char* kThree = "libcuda.so.1 libhl-thunk.so libhsa-runtime64.so.1";
  constexpr const char* kReal =
      "libcuda.so.1 real\nlibhl-thunk.so real\nlibhsa-runtime64.so.1 real\n";
  EXPECT_EQ(loaded({"--keep", "cuda,rocm", "--keep", "gaudi"}, kThree).out, kReal);
  EXPECT_EQ(loaded({"--keep", "gaudi,cuda,rocm"}, kThree).out, kReal);
}

TEST_F(Keep, AMissingLibraryOfAKeptFamilyIsNotEmulated) {
  remove_library("libhl-thunk.so");
  EXPECT_EQ(loaded({"--keep", "gaudi"}, "libhl-thunk.so libSynapse.so").out,
            "libhl-thunk.so missing\nlibSynapse.so real\n");
}

TEST_F(Keep, EmulatedNicsWorkBesideKeptCards) {
  const auto seen = shell({"--keep", "cuda,gaudi", "--nics", "2"},
                          "ibv_devices | grep -c emu; ls $HBMWIRE_EMULATION_NODE | grep -c gaudi");
  EXPECT_EQ(seen.out, "2\n0\n") << seen.err;
}

TEST_F(Keep, KeepingAFamilyThatIsEmulatedIsRefused) {
  const auto said = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {program(), "--dir", directory().string()});
    arguments.insert(arguments.end(), {"--", "true"});
    const auto outcome = run(arguments);
    // The error is for wrong usage; without one the command has run.
    EXPECT_EQ(outcome.exit_code, outcome.err.find("hbmwire emulate: ") == 0 ? 2 : 0);
    return outcome.err;
  };
  EXPECT_THAT(said({"--keep", "cuda", "--cuda", "2"}),
              HasSubstr("--keep cuda leaves the machine's own library in place, and --cuda 2 puts "
                        "an emulated one of the same name before it; leave either out"));
  EXPECT_THAT(said({"--keep", "gaudi", "--gaudi", "1"}), HasSubstr("and --gaudi 1 puts"));
  EXPECT_THAT(said({"--keep", "cuda,rocm", "--rocm", "1"}), HasSubstr("and --rocm 1 puts"));
  EXPECT_THAT(said({"--keep", "gaudi", "--gaudi-kind", "gaudi3"}),
              HasSubstr("no emulated card of the kind of --gaudi-kind"));
  EXPECT_THAT(said({"--keep", "rocm", "--bar", "small"}), HasSubstr("the BAR of --bar"));
  EXPECT_THAT(said({"--keep", "nvidia"}),
              HasSubstr("--keep nvidia: give one of gaudi, cuda, rocm"));
  EXPECT_THAT(said({"--keep", "cuda", "--cuda", "0"}), HasSubstr("emulated: "));
}

TEST_F(Keep, JoiningProgramsGetTheFamiliesThatTheNodeKeeps) {
  Process first(emulate({"--name", "x", "--keep", "cuda"}, "echo ready; exec sleep 100"));
  ASSERT_TRUE(first.wait_for_output("ready"));
  EXPECT_EQ(loaded({"--name", "x"}, "libcuda.so.1").out, "libcuda.so.1 real\n");
  EXPECT_EQ(shell({"--name", "x", "--keep", "cuda"}, "true").exit_code, 0);
  const auto other = shell({"--name", "x", "--keep", "rocm,cuda"}, "true");
  EXPECT_EQ(other.exit_code, 125);
  EXPECT_THAT(other.err, HasSubstr("node x exists with --keep cuda, not cuda,rocm"));
  EXPECT_THAT(shell({"--name", "x", "--cuda", "1"}, "true").err,
              HasSubstr("exists with --cuda 0, not 1"));
  first.signal(SIGTERM);
  first.finish();
}

TEST_F(Keep, ANodeThatEmulatesAFamilyRefusesToKeepIt) {
  Process first(emulate({"--name", "x", "--cuda", "1"}, "echo ready; exec sleep 100"));
  ASSERT_TRUE(first.wait_for_output("ready"));
  EXPECT_THAT(shell({"--name", "x", "--keep", "cuda"}, "true").err,
              HasSubstr("node x exists with --keep nothing, not cuda"));
  first.signal(SIGTERM);
  first.finish();
}

/// A machine with device nodes, /proc/driver/nvidia and PCI devices of each vendor, in the test's
/// own mount namespace. Programs that were started before do not see them. The nodes are those of
/// /dev/zero, 1:5, so they can be read; emulated nodes are those of /dev/null, 1:3.
class KeptNodes : public ViewedWorld {
 protected:
  void SetUp() override {
    ViewedWorld::SetUp();
    if (IsSkipped()) return;
    if (::geteuid() != 0) GTEST_SKIP() << "only root may make device nodes";
    auto reason = make_own_dev();
    if (reason.empty()) reason = make_machine();
    if (!reason.empty()) GTEST_SKIP() << "no machine of the test's own: " << reason;
  }

 private:
  /// Makes that machine once for all tests. Returns the reason if that is forbidden, otherwise "".
  static std::string make_machine();
};

bool make_node(const fs::path& path, unsigned minor_number) {
  fs::create_directories(path.parent_path());
  return ::mknod(path.c_str(), S_IFCHR | 0666, makedev(1, minor_number)) == 0;
}

void write(const fs::path& path, const char* text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text << '\n';
}

constexpr const char* kNvidia = "devices/pci0000:3a/0000:3a:00.0";
constexpr const char* kAmd = "devices/pci0000:5d/0000:5d:00.0";
constexpr const char* kGaudi = "devices/pci0000:7f/0000:7f:00.0";

/// The part of the kernel's description of the cards that programs read.
void write_sysfs(const fs::path& sysfs) {
  for (const auto& [device, vendor] : {std::pair{kNvidia, "0x10de"},
                                       {kAmd, "0x1002"},
                                       {kGaudi, "0x1da3"},
                                       {"devices/pci0000:00/0000:00:01.0", "0x8086"}}) {
    write(sysfs / device / "vendor", vendor);
    write(sysfs / device / "numa_node", "1");
    fs::create_directories(sysfs / "bus/pci/devices");
    fs::create_symlink(fs::path("../../..") / device,
                       sysfs / "bus/pci/devices" / fs::path(device).filename());
  }
  for (const auto& [folder, name, device, number] : {std::tuple{"accel", "accel0", kGaudi, "261:0"},
                                                     {"accel", "accel_controlD0", kGaudi, "261:1"},
                                                     {"drm", "renderD128", kAmd, "226:128"},
                                                     {"drm", "renderD129", kNvidia, "226:129"}}) {
    write(sysfs / device / folder / name / "dev", number);
    fs::create_directories(sysfs / "class" / folder);
    fs::create_directories(sysfs / "dev/char");
    const fs::path target = fs::path("../..") / device / folder / name;
    fs::create_symlink(target, sysfs / "class" / folder / name);
    fs::create_symlink(target, sysfs / "dev/char" / number);
  }
}

std::string KeptNodes::make_machine() {
  static bool done = false;
  if (done) return {};
  bool made = true;
  for (const char* name :
       {"nvidia0", "nvidiactl", "nvidia-caps/nvidia-cap1", "kfd", "dri/renderD128", "accel/accel0",
        "accel/accel_controlD0", "infiniband/uverbs0"})
    made = made && make_node(fs::path("/dev") / name, 5);
  for (const char* place : {"/proc/driver", "/sys"})
    made = made && ::mount("tmpfs", place, "tmpfs", MS_NOSUID, "mode=755") == 0;
  if (!made) return std::string("cannot make it: ") + std::strerror(errno);
  write("/proc/driver/nvidia/version", "NVRM version: of the test");
  write_sysfs("/sys");
  done = true;
  return {};
}

constexpr const char* kNodes =
    "cd /dev; stat -c '%n %t:%T' nvidia* nvidia-caps/* kfd dri/* accel/* infiniband/* 2>/dev/null";

TEST_F(KeptNodes, RealNodesAreHiddenWithoutKeep) {
  EXPECT_EQ(shell({"--gaudi", "0"}, kNodes).out,
            "dri/renderD128 1:5\ninfiniband/rdma_cm 1:3\ninfiniband/uverbs0 1:3\n");
}

TEST_F(KeptNodes, RealNodesOfAKeptFamilyStay) {
  EXPECT_EQ(shell({"--keep", "cuda", "--gaudi", "0"}, kNodes).out,
            "nvidia-caps 0:0\nnvidia0 1:5\nnvidiactl 1:5\nnvidia-caps/nvidia-cap1 1:5\n"
            "dri/renderD128 1:5\ninfiniband/rdma_cm 1:3\ninfiniband/uverbs0 1:3\n");
  EXPECT_EQ(shell({"--keep", "rocm", "--gaudi", "0"}, kNodes).out,
            "kfd 1:5\ndri/renderD128 1:5\ninfiniband/rdma_cm 1:3\ninfiniband/uverbs0 1:3\n");
  EXPECT_EQ(shell({"--keep", "gaudi"}, kNodes).out,
            "dri/renderD128 1:5\naccel/accel0 1:5\naccel/accel_controlD0 1:5\n"
            "infiniband/rdma_cm 1:3\ninfiniband/uverbs0 1:3\n");
}

TEST_F(KeptNodes, KeptNodesAreTheMachinesOwnAndWork) {
  EXPECT_EQ(
      shell({"--keep", "cuda"}, "head -c 3 /dev/nvidia0 | wc -c; cat /proc/driver/nvidia/version")
          .out,
      "3\nNVRM version: of the test\n");
  EXPECT_EQ(shell({"--keep", "cuda", "--rocm", "1"}, "stat -c '%t:%T' /dev/kfd /dev/nvidia0").out,
            "1:3\n1:5\n")
      << "an emulated GPU of another vendor beside it";
}

TEST_F(KeptNodes, KeptNodesServeAnOrdinaryUser) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer's own thread keeps a process from making a user namespace";
#endif
  const auto seen =
      shell({"--keep", "cuda", "--gaudi", "0"},
            "id -u; head -c 3 /dev/nvidia0 | wc -c; stat -c %t:%T /dev/kfd", {.as_nobody = true});
  EXPECT_EQ(seen.out, "65534\n3\n") << "another family's /dev/kfd is hidden; " << seen.err;
}

TEST_F(KeptNodes, RealNodesAreLeftAloneWithoutAView) {
  fs::remove_all("/dev/infiniband");
  const auto seen = shell({"--no-namespaces", "--keep", "cuda", "--gaudi", "0"}, kNodes);
  EXPECT_THAT(seen.out, HasSubstr("nvidia0 1:5\nnvidiactl 1:5\n")) << seen.err;
  EXPECT_THAT(seen.out, HasSubstr("infiniband/uverbs0 1:3\n"));
  EXPECT_TRUE(fs::exists("/dev/nvidia0"));
  ASSERT_TRUE(make_node("/dev/infiniband/uverbs0", 5));
}

TEST_F(KeptNodes, KeptCardsAreInBothSysfsTrees) {
  constexpr const char* kLook = R"(
    for root in /sys $SYSFS_PATH; do
      cat $root/bus/pci/devices/0000:3a:00.0/vendor $root/class/infiniband/emu0/fw_ver
    done
    readlink -f $SYSFS_PATH/bus/pci/devices/0000:3a:00.0
    ls $SYSFS_PATH/bus/pci/devices | grep -c '^0000')";
  EXPECT_EQ(shell({"--keep", "cuda", "--gaudi", "0"}, kLook).out,
            "0x10de\n1.0.emulated\n0x10de\n1.0.emulated\n"
            "/sys/devices/pci0000:3a/0000:3a:00.0\n1\n");
  EXPECT_EQ(shell({"--keep", "gaudi"},
                  "cat $SYSFS_PATH/class/accel/accel0/dev $SYSFS_PATH/dev/char/261:0/dev; "
                  "ls $SYSFS_PATH/class/accel")
                .out,
            "261:0\n261:0\naccel0\naccel_controlD0\n");
}

TEST(KeptLinks, OnlyKeptFamiliesHaveLinks) {
  const Folder machine;
  const fs::path sysfs = fs::canonical(machine.path());
  write_sysfs(sysfs);
  emulation::tool::Hardware hardware;
  const auto found = [&](std::vector<emulation::tool::CardFamily> families) {
    hardware.kept.reset();
    for (const auto family : families) hardware.kept.set(static_cast<std::size_t>(family));
    std::vector<std::string> links;
    for (const auto& [path, target] : kept_links(sysfs, hardware))
      links.push_back(path.string() + " " + target.lexically_relative(sysfs).string());
    return links;
  };
  using enum emulation::tool::CardFamily;
  using ::testing::UnorderedElementsAre;
  const std::string nvidia = std::string("bus/pci/devices/0000:3a:00.0 ") + kNvidia;
  const std::string amd = std::string("bus/pci/devices/0000:5d:00.0 ") + kAmd;
  const std::string drm = std::string(kAmd) + "/drm/renderD128";
  EXPECT_THAT(found({}), ::testing::IsEmpty());
  EXPECT_THAT(found({cuda}), UnorderedElementsAre(nvidia));
  EXPECT_THAT(found({cuda, rocm}), UnorderedElementsAre(nvidia, amd, "class/drm/renderD128 " + drm,
                                                        "dev/char/226:128 " + drm));
  EXPECT_EQ(found({gaudi}).size(), 5U);  // the PCI device, and two links for each of two nodes
}

TEST_F(ViewedWorld, ShowsTheMachinesKernelConfigurationToKeptCards) {
  constexpr const char* kShow = "cat /boot/config-$(uname -r) 2>/dev/null; zcat /proc/config.gz";
  EXPECT_EQ(shell({"--keep", "cuda", "--gaudi", "0"}, kShow).out, run({"sh", "-c", kShow}).out);
  EXPECT_THAT(shell({"--keep", "cuda", "--rocm", "1"}, kShow).out,
              HasSubstr("CONFIG_PCI_P2PDMA=y\n"))
      << "for the emulated GPU";
  EXPECT_EQ(shell({"--no-namespaces", "--nics", "0", "--keep", "cuda", "--gaudi", "0"},
                  "echo $HBMWIRE_ROCM_KERNEL_CONFIG")
                .out,
            "\n");
}

}  // namespace
}  // namespace hbmwire::emulate_test
