// SPDX-License-Identifier: MIT
#include "base/memory_room.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <new>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace hbmwire {

namespace {

namespace fs = std::filesystem;

std::vector<std::string> lines_of(const fs::path& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(std::move(line));
  return lines;
}

std::optional<std::uint64_t> number_in(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return std::nullopt;
  text.remove_prefix(first);
  std::uint64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{}) return std::nullopt;  // the text may be "max"
  return value;
}

std::optional<std::uint64_t> number_of_file(const fs::path& path) {
  const auto lines = lines_of(path);
  return lines.empty() ? std::nullopt : number_in(lines.front());
}

/// A field of a file with lines "name number" or "name: number kB"; 0 if there is none.
std::uint64_t field_of(const std::vector<std::string>& lines, std::string_view name) {
  for (const std::string_view line : lines) {
    if (!line.starts_with(name) || line.size() == name.size()) continue;
    const std::string_view rest = line.substr(name.size());
    if (rest.front() == ' ' || rest.front() == ':') return number_in(rest.substr(1)).value_or(0);
  }
  return 0;
}

/// Replaces `room` if this limit leaves less.
void narrow(MemoryRoom& room, std::uint64_t limit, std::uint64_t used, Hint hint) {
  const std::uint64_t left = limit - std::min(limit, used);
  if (left < room.bytes) room = {.bytes = left, .limit_bytes = limit, .limit = hint};
}

void narrow_by_rlimit(MemoryRoom& room, __rlimit_resource which, std::uint64_t used, Hint hint) {
  rlimit limit{};
  if (::getrlimit(which, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  narrow(room, limit.rlim_cur, used, hint);
}

/// Fields of statm, in pages (proc_pid_statm(5)): size, resident, shared, text, lib, data.
void narrow_by_process(MemoryRoom& room, const fs::path& root) {
  std::uint64_t size = 0;
  std::uint64_t data = 0;
  std::uint64_t skipped = 0;
  std::ifstream statm(root / "proc/self/statm");
  statm >> size >> skipped >> skipped >> skipped >> skipped >> data;
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  narrow_by_rlimit(room, RLIMIT_AS, size * page, Hint::address_space_limit);
  narrow_by_rlimit(room, RLIMIT_DATA, data * page, Hint::data_limit);
}

void narrow_by_machine(MemoryRoom& room, const fs::path& root) {
  constexpr std::uint64_t kKib = 1024;
  const auto lines = lines_of(root / "proc/meminfo");
  const std::uint64_t free = field_of(lines, "MemAvailable") + field_of(lines, "SwapFree");
  if (free == 0) return;
  const std::uint64_t all = field_of(lines, "MemTotal") + field_of(lines, "SwapTotal");
  narrow(room, all * kKib, (all - std::min(all, free)) * kKib, Hint::host_memory_exhausted);
}

/// A cgroup hierarchy that limits memory, and where it is mounted.
struct Hierarchy {
  fs::path mount;
  std::string root;  // the part of the hierarchy that is mounted there
  bool unified = false;
};

bool has_word(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const std::string_view item = list.substr(0, list.find(','));
    if (item == word) return true;
    list.remove_prefix(std::min(list.size(), item.size() + 1));
  }
  return false;
}

/// Fields of proc_pid_mountinfo(5): id, parent, device, root, mount point, options, fields, "-",
/// type, source, options of the file system.
std::vector<Hierarchy> hierarchies(const fs::path& root) {
  std::vector<Hierarchy> found;
  for (const std::string& line : lines_of(root / "proc/self/mountinfo")) {
    std::istringstream words(line);
    std::string skipped;
    Hierarchy one;
    std::string mount;
    words >> skipped >> skipped >> skipped >> one.root >> mount;
    while (words >> skipped && skipped != "-") {
    }
    std::string type;
    std::string options;
    words >> type >> skipped >> options;
    one.unified = type == "cgroup2";
    if (!one.unified && (type != "cgroup" || !has_word(options, "memory"))) continue;
    one.mount = root / fs::path(mount).relative_path();
    found.push_back(std::move(one));
  }
  return found;
}

/// Lines of proc_pid_cgroup(5): "0::/path" for version 2, "4:memory:/path" for version 1.
std::string path_in(const Hierarchy& hierarchy, const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool here = hierarchy.unified ? controllers.empty() : has_word(controllers, "memory");
    if (here) return line.substr(second + 1);
  }
  return "/";
}

/// Inside a container, the process's own cgroup is the root of the mount, whatever the path says.
fs::path folder_of(const Hierarchy& hierarchy, std::string path) {
  if (hierarchy.root != "/" && path.starts_with(hierarchy.root))
    path.erase(0, hierarchy.root.size());
  const fs::path folder = hierarchy.mount / fs::path(path).relative_path();
  std::error_code failure;
  return fs::is_directory(folder, failure) ? folder : hierarchy.mount;
}

void narrow_by_cgroup(MemoryRoom& room, const fs::path& folder, bool unified) {
  const auto limit = number_of_file(folder / (unified ? "memory.max" : "memory.limit_in_bytes"));
  if (!limit) return;
  const auto used = number_of_file(folder / (unified ? "memory.current" : "memory.usage_in_bytes"));
  // Pages of files count as free: the kernel drops them before it refuses memory.
  const auto stat = lines_of(folder / "memory.stat");
  const std::string all = unified ? "" : "total_";  // with all child cgroups, as the usage is
  const std::uint64_t cache =
      field_of(stat, all + "inactive_file") + field_of(stat, all + "active_file");
  narrow(room, *limit, used.value_or(0) - std::min(used.value_or(0), cache),
         Hint::cgroup_memory_limit);
}

void narrow_by_cgroups(MemoryRoom& room, const fs::path& root) {
  const auto lines = lines_of(root / "proc/self/cgroup");
  for (const Hierarchy& hierarchy : hierarchies(root)) {
    fs::path folder = folder_of(hierarchy, path_in(hierarchy, lines));
    // The limits of all cgroups above hold, too. In version 1 "no limit" is a number larger than
    // any memory, so it needs no case of its own.
    while (true) {
      narrow_by_cgroup(room, folder, hierarchy.unified);
      if (folder == hierarchy.mount || !folder.has_relative_path()) break;
      folder = folder.parent_path();
    }
  }
}

/// Root may lock any amount (CAP_IPC_LOCK).
bool locks_are_limited() noexcept {
  rlimit limit{};
  return ::geteuid() != 0 && ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 &&
         limit.rlim_cur != RLIM_INFINITY;
}

}  // namespace

MemoryRoom memory_room(const fs::path& root) {
  MemoryRoom room;
  narrow_by_machine(room, root);
  narrow_by_cgroups(room, root);
  narrow_by_process(room, root);
  return room;
}

MemoryRoom host_memory_room() { return memory_room(); }

Hint memory_hint(Memory kind, std::uint64_t bytes) noexcept {
  const Hint otherwise = kind == Memory::locked ? Hint::memlock_limit : Hint::host_memory_exhausted;
  try {
    const MemoryRoom room = memory_room();
    if (room.bytes < bytes) return room.limit;
    // Every limit leaves room: from here on a guess, as the declaration says.
    if (kind == Memory::locked ? locks_are_limited() : bytes != kUnknownNeed) return otherwise;
    MemoryRoom of_process;
    narrow_by_process(of_process, "/");
    return of_process.limit != Hint::none ? of_process.limit : otherwise;
  } catch (const std::bad_alloc&) {
    return otherwise;
  }
}

}  // namespace hbmwire
