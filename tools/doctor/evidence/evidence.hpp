// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tools/common/output.hpp"

/// The facts about a machine that the doctor judges. They come from the running machine or from an
/// archive of another one; test fixtures are archives. Checks use only this interface, so that the
/// same code judges all of them.
namespace hbmwire::tools::doctor {

/// The most bytes of a file; the rest of a longer file is left out.
inline constexpr std::size_t kMaxFileBytes = std::size_t{64} << 10U;

/// The answer to a question about a path: a value, or an errno. ENOENT means that it does not
/// exist; EACCES and EPERM mean that this user has no right to know.
struct Answer {
  int error = 0;      ///< errno, or 0
  std::string value;  ///< the bytes of a file, or the target of a link; empty after an error

  bool operator==(const Answer&) const = default;
};

/// The names in a folder, sorted, without "." and "..".
struct Names {
  int error = 0;  ///< errno, or 0
  std::vector<std::string> values;

  bool operator==(const Names&) const = default;
};

/// Paths are absolute ("/sys/class/infiniband"). Not thread-safe.
class Evidence {
 public:
  Evidence() = default;
  Evidence(const Evidence&) = delete;
  Evidence& operator=(const Evidence&) = delete;
  virtual ~Evidence() = default;

  /// The contents of a file. For /proc/kallsyms and kernel configurations (/proc/config.gz,
  /// /boot/config-R, ...) only the relevant lines (kernel_text.hpp), as text.
  virtual Answer file(const std::string& path) = 0;
  virtual Names folder(const std::string& path) = 0;
  /// The target of a symbolic link as stored in it (readlink(2)).
  virtual Answer link(const std::string& path) = 0;
  /// The path without symbolic links (realpath(3)).
  virtual Answer real_path(const std::string& path) = 0;
  /// Whether this process may read and write a device node (access(2)). Opens nothing.
  virtual Answer access(const std::string& path) = 0;

  /// The answer of a call, for facts that are in no file: {"error": ERRNO}, some with a "text", or
  /// {"value": ...}. Keys of objects are sorted. An unknown name gives ENOSYS. The names and the
  /// format of their values:
  ///   uname         {"release", "machine"}
  ///   limits        {"memlock": {"soft", "hard"}, "nofile": {...}}: numbers, or "unlimited"
  ///   identity      {"uid", "groups": [...], "capabilities": "000001ffffffffff" (CapEff)}
  ///   affinity      {"cpus": [...]}: sched_getaffinity(2)
  ///   fork          {"verbs": "unneeded" | "enabled" | "disabled"}: ibv_is_fork_initialized(3)
  ///   environment   {"RDMAV_FORK_SAFE": ..., ...}: the relevant variables that are set
  ///   info          the object of `hbmwire info --json`
  ///   hwloc         the topology as hwloc's XML, a string
  ///   modinfo NAME  {"version", "srcversion"}, each a text or null, of the installed module,
  ///                 by modinfo(8). ENOENT: it is not installed; ENOSYS: modinfo(8) is missing
  ///   ethtool NAME  {"statistics": {...}}: those of a network interface, ethtool(8) -S
  ///   pairs         the results of the runs over every pair of NIC and memory (tools/doctor/pairs)
  virtual Json call(const std::string& name) = 0;
};

}  // namespace hbmwire::tools::doctor
