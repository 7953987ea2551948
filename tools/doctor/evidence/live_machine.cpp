// SPDX-License-Identifier: MIT
#include "tools/doctor/evidence/live_machine.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <memory>

#include "hbmwire/fd.hpp"

#include "tools/doctor/evidence/kernel_text.hpp"
#include "tools/doctor/evidence/live_calls.hpp"
#include "tools/doctor/evidence/record.hpp"

namespace hbmwire::tools::doctor {
namespace {

// The most names in a folder. A machine with many virtual functions has some thousand PCI devices.
constexpr std::size_t kMostFolderNames = 16384;

// If SYSFS_PATH is set, the machine's own devices in these folders are hidden: libibverbs and the
// library do not see them either.
constexpr const char* kDeviceFolders[] = {"/sys/bus/pci/devices", "/sys/class/accel",
                                          "/sys/class/habanalabs", "/sys/class/infiniband",
                                          "/sys/class/infiniband_verbs"};

bool is_at_or_below(std::string_view path, std::string_view folder) {
  return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

/// Whether a path can be asked about: it is absolute, and has no zero byte.
bool is_question(const std::string& path) {
  return path.starts_with('/') && path.find('\0') == std::string::npos;
}

struct CloseFolder {
  void operator()(DIR* folder) const noexcept { ::closedir(folder); }
};

/// Empty, with errno set, if the path does not exist.
std::string without_links(const std::string& path) {
  // Without a buffer realpath(3) allocates one.
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr),
                                                         &std::free);
  return real ? real.get() : "";
}

/// Fills `to` with at most `most_bytes` of the file. Returns errno, or 0.
int read_up_to(int fd, std::size_t most_bytes, std::string& to) {
  to.resize(most_bytes);
  std::size_t have = 0;
  int error = 0;
  while (have < to.size()) {
    const ssize_t got = ::read(fd, to.data() + have, to.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) error = errno;
    if (got <= 0) break;
    have += static_cast<std::size_t>(got);
  }
  to.resize(error == 0 ? have : 0);
  return error;
}

// Opens only regular files: opening a device or a FIFO may have effects, and may block.
int open_regular(const std::string& place, Fd& fd) {
  struct stat status {};

  if (::stat(place.c_str(), &status) != 0) return errno;
  if (S_ISDIR(status.st_mode)) return EISDIR;
  if (!S_ISREG(status.st_mode)) return EINVAL;
  fd = Fd(::open(place.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  return fd ? 0 : errno;
}

}  // namespace

LiveMachine::LiveMachine() : calls_(standard_calls()) {
  // Read before any thread exists.
  const char* const variable = std::getenv("SYSFS_PATH");  // NOLINT(concurrency-mt-unsafe)
  if (variable == nullptr || *variable == '\0') return;
  sysfs_ = without_links(variable);
  if (sysfs_.empty()) sysfs_ = variable;  // the path does not exist, and nothing below it either
  if (sysfs_ == "/sys") sysfs_.clear();
}

std::string LiveMachine::place_of(const std::string& path) const {
  if (sysfs_.empty() || !is_at_or_below(path, "/sys")) return path;
  std::string place = sysfs_ + path.substr(std::string_view("/sys").size());

  struct stat status {};

  if (::lstat(place.c_str(), &status) == 0) return place;
  const bool hides = std::ranges::any_of(
      kDeviceFolders, [&](const char* folder) { return is_at_or_below(path, folder); });
  return hides ? place : path;
}

Answer LiveMachine::file(const std::string& path) {
  if (!is_question(path)) return {.error = EINVAL, .value = {}};
  Fd fd;
  Answer answer{.error = open_regular(place_of(path), fd), .value = {}};
  if (answer.error != 0) return answer;
  if (is_kernel_text(path)) return read_kernel_text(path, fd.get());
  answer.error = read_up_to(fd.get(), kMaxFileBytes, answer.value);
  return answer;
}

Names LiveMachine::folder(const std::string& path) {
  if (!is_question(path)) return {.error = EINVAL, .values = {}};
  const std::unique_ptr<DIR, CloseFolder> folder(::opendir(place_of(path).c_str()));
  if (!folder) return {.error = errno, .values = {}};
  Names names;
  while (names.values.size() < kMostFolderNames) {
    errno = 0;
    const dirent* const entry = ::readdir(folder.get());  // NOLINT(concurrency-mt-unsafe)
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.values.emplace_back(name);
  }
  if (errno != 0) return {.error = errno, .values = {}};
  std::ranges::sort(names.values);
  return names;
}

Answer LiveMachine::link(const std::string& path) {
  if (!is_question(path)) return {.error = EINVAL, .value = {}};
  std::array<char, PATH_MAX> target{};
  const ssize_t size = ::readlink(place_of(path).c_str(), target.data(), target.size());
  if (size < 0) return {.error = errno, .value = {}};
  return {.error = 0, .value = std::string(target.data(), static_cast<std::size_t>(size))};
}

Answer LiveMachine::real_path(const std::string& path) {
  if (!is_question(path)) return {.error = EINVAL, .value = {}};
  std::string real = without_links(place_of(path));
  if (real.empty()) return {.error = errno, .value = {}};
  if (!sysfs_.empty() && is_at_or_below(real, sysfs_)) real.replace(0, sysfs_.size(), "/sys");
  return {.error = 0, .value = std::move(real)};
}

Answer LiveMachine::access(const std::string& path) {
  if (!is_question(path)) return {.error = EINVAL, .value = {}};
  const bool may = ::access(place_of(path).c_str(), R_OK | W_OK) == 0;
  return {.error = may ? 0 : errno, .value = {}};
}

Json LiveMachine::call(const std::string& name) {
  if (const auto at = calls_.find(name); at != calls_.end()) return sorted(at->second());
  const std::size_t space = name.find(' ');
  if (space == std::string::npos) return {{"error", ENOSYS}};
  return sorted(call_about(name.substr(0, space), name.substr(space + 1)));
}

void LiveMachine::add_call(const std::string& name, Provider provider) {
  calls_[name] = std::move(provider);
}

}  // namespace hbmwire::tools::doctor
