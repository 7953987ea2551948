// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <fmt/core.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <fstream>

#include "emulation/tool/file_lock.hpp"
#include "emulation/tool/namespaces.hpp"

namespace hbmwire::emulation::tool {
namespace {

Status write_proc(const char* path, const std::string& text) {
  const Fd fd{::open(path, O_WRONLY | O_CLOEXEC)};
  if (!fd || ::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return cannot(fmt::format("write {}", path));
  }
  return {};
}

// COMMAND keeps its own user and group id; all others appear as the overflow ids.
Status make_user_namespace() {
  const auto uid = ::geteuid();
  const auto gid = ::getegid();
  if (::unshare(CLONE_NEWUSER) != 0) return cannot("create a user namespace");
  // The kernel requires this before an unprivileged gid_map (user_namespaces(7)).
  if (auto written = write_proc("/proc/self/setgroups", "deny"); !written) return written;
  if (auto written = write_proc("/proc/self/uid_map", fmt::format("{0} {0} 1", uid)); !written)
    return written;
  return write_proc("/proc/self/gid_map", fmt::format("{0} {0} 1", gid));
}

std::filesystem::path members_file(const std::filesystem::path& fabric) {
  return fabric / "userns";
}

ino_t inode_of(int fd) {
  struct stat info {};

  return ::fstat(fd, &info) == 0 ? info.st_ino : 0;
}

Status try_everything() {
  if (needs_user_namespace()) {
    if (auto made = make_user_namespace(); !made) return made;
  }
  if (auto entered = enter_private_mount_namespace(); !entered) return entered;
  // On some distributions AppArmor lets users create the namespace, but then forbids this.
  if (::mount("hbmwire", "/dev", "tmpfs", 0, "mode=755") != 0) return cannot("mount a tmpfs");
  return {};
}

}  // namespace

bool needs_user_namespace() {
  // Bit 21 of the effective set is CAP_SYS_ADMIN, which unshare(CLONE_NEWNS) and mount() require.
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("CapEff:")) continue;
    return (std::strtoull(line.c_str() + 7, nullptr, 16) & (1ULL << 21)) == 0;
  }
  return true;
}

Status try_namespaces() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return cannot("create a pipe");
  Fd from_child{ends[0]};
  Fd to_parent{ends[1]};
  const pid_t child = ::fork();
  if (child < 0) return cannot("fork");
  if (child == 0) {
    const auto tried = try_everything();
    const std::string sentence = tried ? std::string("+") : tried.error();
    [[maybe_unused]] const auto sent = ::write(to_parent.get(), sentence.data(), sentence.size());
    ::_exit(0);
  }
  to_parent.reset();
  std::array<char, 512> answer{};
  const auto length = ::read(from_child.get(), answer.data(), answer.size());
  ::waitpid(child, nullptr, 0);
  if (length == 1 && answer[0] == '+') return {};
  if (length <= 0) return problem("cannot create a mount namespace: the attempt was killed");
  return problem(std::string(answer.data(), static_cast<std::size_t>(length)));
}

Status enter_user_namespace(const std::filesystem::path& fabric) {
  std::ifstream members(members_file(fabric));
  pid_t process = 0;
  ino_t inode = 0;
  while (members >> process >> inode) {
    const auto path = fmt::format("/proc/{}/ns/user", process);
    const Fd ns{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
    // The number of an ended process may have been reused, in another namespace.
    if (!ns || inode_of(ns.get()) != inode) continue;
    if (::setns(ns.get(), CLONE_NEWUSER) == 0) return {};
  }
  return make_user_namespace();
}

Status register_user_namespace(const std::filesystem::path& fabric, pid_t process) {
  const Fd ns{::open(fmt::format("/proc/{}/ns/user", process).c_str(), O_RDONLY | O_CLOEXEC)};
  // The process may have ended already. Then no other process can join through it.
  if (!ns) return {};
  const auto path = members_file(fabric);
  const Fd file{::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)};
  const auto line = fmt::format("{} {}\n", process, inode_of(ns.get()));
  if (!file || ::write(file.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    return cannot("write " + path.string());
  }
  return {};
}

}  // namespace hbmwire::emulation::tool
