// SPDX-License-Identifier: MIT
#include "emulation/tests/emulate/world_fixture.hpp"

#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "emulation/common/world.hpp"
#include "emulation/tool/namespaces.hpp"

namespace hbmwire::emulate_test {
namespace {

namespace fs = std::filesystem;

std::string content(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

bool nobody_can_run(const std::string& program) {
  return run({"test", "-x", program}, {.as_nobody = true}).exit_code == 0;
}

}  // namespace

void World::SetUp() {
  if (emulation::World::from_environment())
    GTEST_SKIP() << "worlds do not nest: run the test outside of one";
  std::string name = "/dev/shm/emulate-test-XXXXXX";
  ASSERT_NE(::mkdtemp(name.data()), nullptr);
  directory_ = name;
  ASSERT_EQ(::chmod(name.c_str(), 0777), 0);  // some tests run as an ordinary user
  program_ = HBMWIRE_EMULATE;
  if (::geteuid() == 0 && !nobody_can_run(program_)) {
    // The build tree lies where only its owner may enter. Copies of these two folders suffice. The
    // program is <build>/libexec/hbmwire/<name>.
    const auto build = fs::path(HBMWIRE_EMULATE).parent_path().parent_path().parent_path();
    copy_ = directory_.string() + "-copy";
    for (const fs::path folder : {"libexec/hbmwire", "lib/hbmwire"}) {
      fs::create_directories((copy_ / folder).parent_path());
      fs::copy(build / folder, copy_ / folder,
               fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    }
    program_ = copy_ / fs::path(HBMWIRE_EMULATE).lexically_relative(build);
  }
}

void World::TearDown() {
  if (directory_.empty()) return;
  EXPECT_TRUE(becomes_true([&] { return nothing_is_left(); }))
      << "left in " << directory_ << ": " << run({"find", directory_.string()}).out << "and "
      << processes().size() << " processes";
  std::istringstream mounts(content("/proc/self/mounts"));
  for (std::string line; std::getline(mounts, line);) {
    // Other tests, which run meanwhile, have network namespaces of such names (ip-netns(8)).
    if (line.find("/netns/") != std::string::npos) continue;
    EXPECT_EQ(line.find("hbmwire"), std::string::npos) << line;
  }
  std::error_code ignored;
  fs::remove_all(directory_, ignored);
  fs::remove_all(copy_, ignored);
}

std::vector<std::string> World::emulate(std::vector<std::string> options,
                                        const std::string& script) const {
  std::vector<std::string> command = {program_, "--dir", directory_.string()};
  command.insert(command.end(), options.begin(), options.end());
  command.insert(command.end(), {"--", "sh", "-c", script});
  return command;
}

Process::Outcome World::shell(std::vector<std::string> options, const std::string& script,
                              const Process::Setup& setup) const {
  return run(emulate(std::move(options), script), setup);
}

std::vector<pid_t> World::processes() const {
  std::vector<pid_t> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const auto pid = std::strtol(entry.path().filename().c_str(), nullptr, 10);
    if (pid <= 0 || pid == ::getpid()) continue;
    if (content(entry.path() / "cmdline").find(directory_.string()) != std::string::npos) {
      found.push_back(static_cast<pid_t>(pid));
    }
  }
  return found;
}

std::vector<pid_t> World::janitors() const {
  std::vector<pid_t> found;
  for (const pid_t pid : processes()) {
    if (line(content("/proc/" + std::to_string(pid) + "/comm")) == "hbmwire-janitor")
      found.push_back(pid);
  }
  return found;
}

bool World::nothing_is_left() const { return fs::is_empty(directory_) && processes().empty(); }

void ViewedWorld::SetUp() {
  World::SetUp();
  if (IsSkipped()) return;
  const auto possible = emulation::tool::try_namespaces();
  if (!possible) GTEST_SKIP() << "no view of /dev and /sys here: " << possible.error();
}

void OrdinaryUser::SetUp() {
  World::SetUp();
  if (IsSkipped()) return;
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer's own thread keeps a process from making a user namespace";
#endif
  if (::geteuid() != 0)
    GTEST_SKIP() << "only root can become an ordinary user; the other tests ran as one";
}

std::string make_own_dev() {
  static bool done = false;
  if (done) return {};
  const auto failed = [](const char* what) {
    return std::string(what) + ": " + std::strerror(errno);
  };
  if (const auto entered = emulation::tool::enter_private_mount_namespace(); !entered)
    return entered.error();
  std::string dev = "/tmp/emulate-test-dev-XXXXXX";
  if (::mkdtemp(dev.data()) == nullptr) return failed("no directory in /tmp");
  if (::mount("tmpfs", dev.c_str(), "tmpfs", MS_NOSUID, "mode=755") != 0) {
    const auto reason = failed("cannot mount a tmpfs");
    ::rmdir(dev.c_str());
    return reason;
  }
  for (const auto& [name, minor_number] :
       {std::pair{"null", 3U}, {"zero", 5U}, {"full", 7U}, {"random", 8U}, {"urandom", 9U}}) {
    const fs::path node = fs::path(dev) / name;
    if (::mknod(node.c_str(), S_IFCHR | 0666, makedev(1, minor_number)) != 0 ||
        ::chmod(node.c_str(), 0666) != 0)
      return failed("cannot make a device node");
  }
  const fs::path shared_memory = fs::path(dev) / "shm";
  if (::mkdir(shared_memory.c_str(), 0755) != 0 ||
      ::mount("/dev/shm", shared_memory.c_str(), nullptr, MS_BIND, nullptr) != 0 ||
      ::mount(dev.c_str(), "/dev", nullptr, MS_MOVE, nullptr) != 0)
    return failed("cannot put it in place");
  ::rmdir(dev.c_str());
  done = true;
  return {};
}

std::string line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace hbmwire::emulate_test
