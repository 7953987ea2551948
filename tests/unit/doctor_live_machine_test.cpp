// SPDX-License-Identifier: MIT
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "tools/doctor/evidence/kernel_text.hpp"
#include "tools/doctor/evidence/live_machine.hpp"
#include "tools/doctor/evidence/packed_bytes.hpp"

namespace hbmwire::tools::doctor {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

/// Makes a folder, and removes it afterwards.
class DoctorLiveMachine : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "hbmwire-doctor-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = fs::canonical(name);
  }

  void TearDown() override {
    if (before_.empty()) {
      ::unsetenv("SYSFS_PATH");
    } else {
      ::setenv("SYSFS_PATH", before_.c_str(), 1);
    }
    fs::remove_all(folder_);
  }

  std::string write(const std::string& name, const std::string& text) {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }

  [[nodiscard]] std::string path(const std::string& name) const {
    return (folder_ / name).string();
  }

  /// A machine whose SYSFS_PATH is the folder "sys".
  LiveMachine with_sysfs() {
    fs::create_directories(folder_ / "sys");
    ::setenv("SYSFS_PATH", path("sys").c_str(), 1);
    return {};
  }

  static std::string variable() {
    const char* const value = std::getenv("SYSFS_PATH");
    return value != nullptr ? value : "";
  }

  fs::path folder_;
  const std::string before_ = variable();  // restored after the test
};

TEST_F(DoctorLiveMachine, ReadsFilesUpToTheirBound) {
  LiveMachine machine;
  EXPECT_EQ(machine.file(write("a", "x\n")).value, "x\n");
  EXPECT_EQ(machine.file(write("b", std::string(kMaxFileBytes + 1, 'a'))).value,
            std::string(kMaxFileBytes, 'a'));
  EXPECT_EQ(machine.file(path("none")).error, ENOENT);
  EXPECT_EQ(machine.file(folder_.string()).error, EISDIR);
  EXPECT_EQ(machine.file("relative").error, EINVAL);
  EXPECT_EQ(machine.file(std::string("/\0", 2)).error, EINVAL);
}

// Opening a device may reset it, and opening a FIFO would block.
TEST_F(DoctorLiveMachine, OpensRegularFilesAlone) {
  LiveMachine machine;
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  EXPECT_EQ(machine.file(path("fifo")).error, EINVAL);
  EXPECT_EQ(machine.file("/dev/null").error, EINVAL);
}

TEST_F(DoctorLiveMachine, ListsFoldersAndLinks) {
  LiveMachine machine;
  write("f/b", "");
  write("f/a", "");
  fs::create_symlink("f/a", folder_ / "link");
  EXPECT_THAT(machine.folder(path("f")).values, ElementsAre("a", "b"));
  EXPECT_EQ(machine.folder(path("none")).error, ENOENT);
  EXPECT_EQ(machine.folder(path("f/a")).error, ENOTDIR);
  EXPECT_EQ(machine.link(path("link")).value, "f/a");
  EXPECT_EQ(machine.link(path("f")).error, EINVAL);
  EXPECT_EQ(machine.real_path(path("link")).value, path("f/a"));
  EXPECT_EQ(machine.real_path(path("none")).error, ENOENT);
}

TEST_F(DoctorLiveMachine, AsksForAccess) {
  LiveMachine machine;
  EXPECT_EQ(machine.access("/dev/null").error, 0);
  EXPECT_EQ(machine.access(path("none")).error, ENOENT);
}

TEST_F(DoctorLiveMachine, SeesTheTreeThatLibibverbsSees) {
  write("sys/class/infiniband/emu0/fw_ver", "1.0\n");
  fs::create_directory_symlink("../class/infiniband/emu0", folder_ / "sys/class/link");
  LiveMachine machine = with_sysfs();
  EXPECT_THAT(machine.folder("/sys/class/infiniband").values, ElementsAre("emu0"));
  EXPECT_EQ(machine.file("/sys/class/infiniband/emu0/fw_ver").value, "1.0\n");
  EXPECT_EQ(machine.link("/sys/class/link").value, "../class/infiniband/emu0");
  EXPECT_EQ(machine.real_path("/sys/class/link").value, "/sys/class/infiniband/emu0");
  // All else comes from the machine's real sysfs, except its PCI devices, which are hidden.
  EXPECT_THAT(machine.folder("/sys/class/net").values, Contains("lo"));
  EXPECT_EQ(machine.folder("/sys/bus/pci/devices").error, ENOENT);
  EXPECT_EQ(machine.folder("/sysroot").error, ENOENT);
}

TEST_F(DoctorLiveMachine, SeesNoDevicesInATreeThatIsNotThere) {
  ::setenv("SYSFS_PATH", path("none").c_str(), 1);
  LiveMachine machine;
  EXPECT_EQ(machine.folder("/sys/bus/pci/devices").error, ENOENT);
}

TEST_F(DoctorLiveMachine, AnswersCalls) {
  LiveMachine machine;
  EXPECT_FALSE(machine.call("uname")["value"]["release"].get<std::string>().empty());
  EXPECT_TRUE(machine.call("limits")["value"]["memlock"].contains("soft"));
  EXPECT_EQ(machine.call("identity")["value"]["uid"], ::geteuid());
  EXPECT_EQ(machine.call("identity")["value"]["capabilities"].get<std::string>().size(), 16U);
  EXPECT_FALSE(machine.call("affinity")["value"]["cpus"].empty());
  EXPECT_TRUE(machine.call("fork")["value"]["verbs"].is_string());
  EXPECT_THAT(machine.call("hwloc")["value"].get<std::string>(), HasSubstr("<topology"));
  EXPECT_EQ(machine.call("none"), (Json{{"error", ENOSYS}}));
  EXPECT_EQ(machine.call("none at all"), (Json{{"error", ENOSYS}}));
}

TEST_F(DoctorLiveMachine, TellsTheEnvironmentThatMatters) {
  ::setenv("RDMAV_FORK_SAFE", "1", 1);
  ::setenv("SECRET_OF_TEST", "x", 1);
  const Json value = LiveMachine().call("environment")["value"];
  ::unsetenv("RDMAV_FORK_SAFE");
  ::unsetenv("SECRET_OF_TEST");
  EXPECT_EQ(value["RDMAV_FORK_SAFE"], "1");
  EXPECT_FALSE(value.contains("SECRET_OF_TEST"));
  EXPECT_FALSE(value.contains("PATH"));
}

TEST_F(DoctorLiveMachine, ReportsTheSameAsInfo) {
  const Json value = LiveMachine().call("info")["value"];
  for (const char* key : {"version", "protocols", "settings", "nics", "memory", "emulated"})
    EXPECT_TRUE(value.contains(key)) << key;
}

TEST_F(DoctorLiveMachine, ReportsWhyInfoFails) {
  ::setenv("HBMWIRE_GAUDI_DMABUF", "nonsense", 1);
  const Json answer = LiveMachine().call("info");
  ::unsetenv("HBMWIRE_GAUDI_DMABUF");
  EXPECT_EQ(answer["error"], EINVAL);
  EXPECT_THAT(answer["text"].get<std::string>(), HasSubstr("HBMWIRE_GAUDI_DMABUF"));
}

// An archive returns the keys of a call in this order.
TEST_F(DoctorLiveMachine, SortsTheKeysOfCalls) {
  LiveMachine machine;
  machine.add_call("pairs", [] {
    return Json{{"value", {{"z", 1}, {"a", {{"y", 2}, {"b", 3}}}}}};
  });
  EXPECT_EQ(machine.call("pairs").dump(), R"({"value":{"a":{"b":3,"y":2},"z":1}})");
}

TEST_F(DoctorLiveMachine, RefusesNamesThatAreNoModules) {
  LiveMachine machine;
  for (const char* name : {"modinfo ", "modinfo -F", "modinfo a b", "modinfo ../x"})
    EXPECT_EQ(machine.call(name)["error"], EINVAL) << name;
}

TEST_F(DoctorLiveMachine, KnowsWhichModulesAreInstalled) {
  const int error = LiveMachine().call("modinfo no_such_module_at_all")["error"].get<int>();
  const bool has_program = fs::exists("/usr/sbin/modinfo") || fs::exists("/sbin/modinfo") ||
                           fs::exists("/usr/bin/modinfo") || fs::exists("/bin/modinfo");
  EXPECT_EQ(error, has_program ? ENOENT : ENOSYS);
}

TEST_F(DoctorLiveMachine, AsksInterfacesForStatistics) {
  LiveMachine machine;
  EXPECT_EQ(machine.call("ethtool none0")["error"], ENODEV);
  EXPECT_EQ(machine.call("ethtool " + std::string(40, 'a'))["error"], ENODEV);
  EXPECT_EQ(machine.call("ethtool lo")["error"], EOPNOTSUPP);
}

TEST(DoctorKernelText, KnowsTheFiles) {
  for (const char* path : {"/proc/kallsyms", "/proc/config.gz", "/boot/config-6.1",
                           "/lib/modules/6.1/config", "/lib/modules/6.1/build/.config",
                           "/usr/lib/modules/6.1/config", "/usr/lib/kernel/config-6.1",
                           "/usr/lib/ostree-boot/config-6.1", "/usr/src/linux-headers-6.1/.config"})
    EXPECT_TRUE(is_kernel_text(path)) << path;
  EXPECT_FALSE(is_kernel_text("/sys/bus/pci/devices/0000:3a:00.0/config"));
  EXPECT_FALSE(is_kernel_text("/proc/cmdline"));
}

/// An unnamed file that holds `text`; the offset is at its beginning.
class TextDescriptor {
 public:
  explicit TextDescriptor(const std::string& text) : file_(std::tmpfile()) {
    std::fwrite(text.data(), 1, text.size(), file_);
    std::rewind(file_);
  }

  TextDescriptor(const TextDescriptor&) = delete;
  TextDescriptor& operator=(const TextDescriptor&) = delete;

  ~TextDescriptor() { std::fclose(file_); }

  [[nodiscard]] int get() const { return ::fileno(file_); }

 private:
  std::FILE* file_;
};

TEST(DoctorKernelText, KeepsTheLinesThatMatter) {
  const TextDescriptor symbols(
      "ffffffff81000000 T _text\nffffffff81234567 T ib_umem_dmabuf_get\t[ib_uverbs]\n"
      "ffffffff81234568 t x_ib_umem_dmabuf_get\nffffffff81234569 T pci_p2pdma_distance_many");
  EXPECT_EQ(read_kernel_text("/proc/kallsyms", symbols.get()).value,
            "0000000000000000 T ib_umem_dmabuf_get\t[ib_uverbs]\n"
            "0000000000000000 T pci_p2pdma_distance_many\n");
  const std::string config =
      "CONFIG_EXT4_FS=y\nCONFIG_PCI_P2PDMA=y\n# CONFIG_DMABUF_MOVE_NOTIFY is not set\n# RDMA\n";
  const std::string kept = "CONFIG_PCI_P2PDMA=y\n# CONFIG_DMABUF_MOVE_NOTIFY is not set\n";
  const TextDescriptor plain(config);
  EXPECT_EQ(read_kernel_text("/boot/config-6.1", plain.get()).value, kept);
  const TextDescriptor packed(deflated(config));
  EXPECT_EQ(read_kernel_text("/proc/config.gz", packed.get()).value, kept);
  const TextDescriptor broken("no gzip");
  EXPECT_EQ(read_kernel_text("/proc/config.gz", broken.get()).error, EIO);
}

TEST(DoctorKernelText, KeepsNoMoreThanAFileMayHave) {
  std::string config;
  for (int i = 0; i < 10'000; ++i) config += "CONFIG_INFINIBAND_" + std::to_string(i) + "=y\n";
  const TextDescriptor file(config);
  const Answer answer = read_kernel_text("/boot/config-6.1", file.get());
  EXPECT_LE(answer.value.size(), kMaxFileBytes);
  EXPECT_GT(answer.value.size(), kMaxFileBytes - 100);
}

}  // namespace
}  // namespace hbmwire::tools::doctor
