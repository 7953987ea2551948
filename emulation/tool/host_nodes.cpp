// SPDX-License-Identifier: MIT
#include "emulation/tool/host_nodes.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <vector>

namespace hbmwire::emulation::tool {
namespace {

namespace fs = std::filesystem;

// Lists the nodes that were made, one path in a line, in the order of making. Every user of them
// holds a shared lock on it. It lies in /dev, as the nodes do, because all users and all --dir
// share them.
constexpr const char* kRegistry = "/dev/.hbmwire-nodes";

// NOLINTNEXTLINE(readability-identifier-naming): a constant, though makedev() is no constexpr.
const dev_t kNullDevice = makedev(1, 3);

// Locks /dev to make or remove nodes. No other program is known to lock this directory.
Fd lock_dev() {
  Fd dev{::open("/dev", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (dev) ::flock(dev.get(), LOCK_EX);
  return dev;
}

// Makes nodes, and records each of them in the registry.
class Maker {
 public:
  Maker() = default;

  explicit Maker(Fd users) : users_(std::move(users)) {}

  Status make_node(const DeviceNode& node);

  // The shared lock on the registry; empty if none was needed.
  [[nodiscard]] Fd take_users() { return std::move(users_); }

 private:
  Status make_directory(const fs::path& path);
  Status remember(const fs::path& path);

  Fd users_;
};

// Records a node before it is made, so that none is ever forgotten.
Status Maker::remember(const fs::path& path) {
  const auto failed = [&](int error) { return cannot("make " + path.string(), error); };
  if (!users_) {
    auto users = hold_for_descendants(kRegistry);
    if (!users) return failed(errno);
    users_ = std::move(*users);
  }
  const Fd registry{::open(kRegistry, O_WRONLY | O_APPEND | O_CLOEXEC)};
  const auto line = path.string() + '\n';
  if (!registry || ::write(registry.get(), line.data(), line.size()) < 0) return failed(errno);
  return {};
}

Status Maker::make_directory(const fs::path& path) {
  struct stat info {};

  if (::stat(path.c_str(), &info) == 0) return {};
  if (auto noted = remember(path); !noted) return noted;
  if (::mkdir(path.c_str(), 0755) != 0) return cannot("create " + path.string());
  return {};
}

Status Maker::make_node(const DeviceNode& node) {
  const auto path = fs::path("/dev") / node.name;

  struct stat info {};

  if (::stat(path.c_str(), &info) == 0) {
    if (S_ISCHR(info.st_mode) && info.st_rdev == kNullDevice) return {};
    return problem(fmt::format("{} belongs to a real device", path.string()));
  }
  if (auto made = make_directory(path.parent_path()); !made) return made;
  if (auto noted = remember(path); !noted) return noted;
  const auto mask = ::umask(0);
  const int made = ::mknod(path.c_str(), S_IFCHR | 0666, kNullDevice);
  const int error = errno;
  ::umask(mask);
  if (made != 0) return cannot("make the device node " + path.string(), error);
  return {};
}

}  // namespace

Result<Fd> make_host_nodes(const Hardware& hardware) {
  const auto lock = lock_dev();
  Maker maker;
  // Another world may have made the nodes. Then they must last as long as this world too.
  if (fs::exists(kRegistry)) {
    auto users = hold_for_descendants(kRegistry);
    if (!users) return tl::unexpected(users.error());
    maker = Maker(std::move(*users));
  }
  for (const auto& node : device_nodes(hardware)) {
    const auto made = maker.make_node(node);
    if (!made && node.required) {
      // Releases the lock on the registry, so that the nodes made so far are removed.
      maker = Maker();
      return tl::unexpected(made.error());
    }
  }
  return maker.take_users();
}

bool remove_host_nodes_if_unused() {
  // Either no node was made, or root has made them: root's next run removes them.
  if (::access(kRegistry, W_OK) != 0) return true;
  const auto lock = lock_dev();
  if (::access(kRegistry, W_OK) != 0) return true;
  const auto nobody_else = lock_exclusively(kRegistry, Wait::no, false);
  if (!nobody_else) return false;

  std::vector<fs::path> made;
  std::ifstream registry(kRegistry);
  for (std::string line; std::getline(registry, line);) made.emplace_back(line);
  std::reverse(made.begin(), made.end());  // the content of a directory goes before the directory
  for (const fs::path& path : made) {
    struct stat info {};

    if (::lstat(path.c_str(), &info) != 0) continue;
    if (S_ISDIR(info.st_mode)) ::rmdir(path.c_str());
    if (S_ISCHR(info.st_mode) && info.st_rdev == kNullDevice) ::unlink(path.c_str());
  }
  ::unlink(kRegistry);
  return true;
}

}  // namespace hbmwire::emulation::tool
