// SPDX-License-Identifier: MIT
// A view of /dev and /sys in a chroot whose / is an ordinary folder and not a mount point.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "emulation/tests/emulate/world_fixture.hpp"

namespace hbmwire::emulate_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

// $1 is an empty folder, $2 the build tree; the rest is run in the chroot. The mounts around it are
// shared, as systemd makes them: mounts that the chroot makes in a namespace that is not private
// would appear outside, and stay. The mount table before and after is stored beside the folder, as
// are the names in the chroot's root. The build tree may lie in one of the folders that are bound
// anyway.
constexpr const char* kInChroot = R"(
  set -e
  root=$1 build=$2
  shift 2
  mount --make-rshared /
  mkdir -p "$root/tmp" "$root/proc" "$root/dev" "$root/sys"
  for folder in usr etc bin sbin lib lib32 lib64; do
    if [ -L "/$folder" ]; then
      cp -P "/$folder" "$root/$folder"
    elif [ -d "/$folder" ]; then
      mkdir -p "$root/$folder"
      mount --bind "/$folder" "$root/$folder"
    fi
  done
  for folder in proc dev sys; do mount --rbind "/$folder" "$root/$folder"; done
  if [ ! -d "$root/$build" ]; then
    mkdir -p "$root/$build"
    mount --rbind "$build" "$root/$build"
  fi
  ls "$root" >"$root.names"
  cat /proc/self/mountinfo >"$root.before"
  chroot "$root" "$@" || result=$?
  cat /proc/self/mountinfo >"$root.after"
  exit ${result:-0})";

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class Chroot : public ViewedWorld {
 protected:
  void SetUp() override {
    ViewedWorld::SetUp();
    if (IsSkipped()) return;
    if (::geteuid() != 0) GTEST_SKIP() << "only root may change its root folder";
    root_ = "/tmp/emulate-test-root-XXXXXX";
    ASSERT_NE(::mkdtemp(root_.data()), nullptr);
  }

  void TearDown() override {
    ViewedWorld::TearDown();
    if (root_.empty()) return;
    for (const char* suffix : {"", ".before", ".after", ".names"}) fs::remove_all(root_ + suffix);
  }

  /// Runs `<before> hbmwire emulate <options> -- sh -c <script>` in the chroot.
  [[nodiscard]] Process::Outcome in_chroot(const std::vector<std::string>& before,
                                           const std::vector<std::string>& options,
                                           const std::string& script) const {
    // The program is <build>/libexec/hbmwire/<name>.
    const auto build = fs::path(program()).parent_path().parent_path().parent_path();
    std::vector<std::string> command = {"unshare", "--mount", "sh",  "-c",
                                        kInChroot, "chroot",  root_, build};
    command.insert(command.end(), before.begin(), before.end());
    const auto emulated = emulate(options, script);
    command.insert(command.end(), emulated.begin(), emulated.end());
    return run(command);
  }

  [[nodiscard]] std::string names() const { return text_of(root_ + ".names"); }

  [[nodiscard]] std::string mounts_before() const { return text_of(root_ + ".before"); }

  [[nodiscard]] std::string mounts_after() const { return text_of(root_ + ".after"); }

 private:
  std::string root_;
};

// The view is the same as outside of a chroot, where / is a mount point.
TEST_F(Chroot, CommandHasAViewOfDevAndSys) {
  const auto seen = in_chroot({}, {"--nics", "2"}, R"(
    stat -c '%n %F %t:%T' /dev/infiniband/* /dev/accel/* && ls /sys/class/infiniband /sys/class/accel &&
    cat /sys/class/infiniband/emu0/ports/1/state && echo x >/dev/null)");
  EXPECT_EQ(seen.exit_code, 0) << seen.err;
  EXPECT_THAT(seen.err, Not(HasSubstr("without a view")));
  EXPECT_EQ(seen.out,
            "/dev/infiniband/rdma_cm character special file 1:3\n"
            "/dev/infiniband/uverbs0 character special file 1:3\n"
            "/dev/infiniband/uverbs1 character special file 1:3\n"
            "/dev/accel/accel0 character special file 1:3\n"
            "/dev/accel/accel_controlD0 character special file 1:3\n"
            "/sys/class/accel:\naccel0\naccel_controlD0\n\n"
            "/sys/class/infiniband:\nemu0\nemu1\n4: ACTIVE\n");
}

TEST_F(Chroot, CommandKeepsItsRootAndFolder) {
  const auto seen = in_chroot({}, {}, "ls /; pwd");
  EXPECT_EQ(seen.exit_code, 0) << seen.err;
  EXPECT_THAT(names(), HasSubstr("usr\n"));
  EXPECT_EQ(seen.out, names() + "/\n");
}

TEST_F(Chroot, NoMountAppearsOutside) {
  const auto seen = in_chroot({}, {}, "grep -c hbmwire /proc/self/mounts");
  EXPECT_EQ(seen.exit_code, 0) << seen.err;
  EXPECT_NE(seen.out, "0\n");
  EXPECT_FALSE(mounts_before().empty());
  EXPECT_EQ(mounts_after(), mounts_before());
}

TEST_F(Chroot, SaysWhatIsLostWithoutAViewAndHowToHaveOne) {
  const auto seen = in_chroot({"setpriv", "--bounding-set", "-sys_chroot"},
                              {"--nics", "0", "--gaudi", "0"}, "ls /sys/class/infiniband");
  EXPECT_THAT(seen.err, HasSubstr("without a view of /dev and /sys (cannot make mounts private in "
                                  "a chroot: Operation not permitted)"));
  EXPECT_THAT(seen.err, HasSubstr("libibverbs alone finds the devices"));
  EXPECT_THAT(seen.err, HasSubstr("to have a view, run with the capabilities"));
  EXPECT_EQ(mounts_after(), mounts_before());
}

}  // namespace
}  // namespace hbmwire::emulate_test
