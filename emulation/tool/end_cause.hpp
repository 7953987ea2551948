// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace hbmwire::emulation::tool {

/// Finds out why COMMAND was ended by a signal that no process sent. The emulated hardware's memory
/// consists of files. A full file system ends COMMAND by SIGBUS, a full cgroup by SIGKILL.
class EndCause {
 public:
  /// Made before COMMAND starts. `world` is a folder with the files. `vmstat` is /proc/vmstat,
  /// which counts the kills for lack of memory in all cgroups.
  explicit EndCause(std::filesystem::path world, std::filesystem::path vmstat = "/proc/vmstat");

  /// Explains COMMAND's exit code in a sentence. (The exit code of a shell may be that of its own
  /// child.) Empty if the code does not mean such a signal, or the cause is not known.
  [[nodiscard]] std::string explain(int exit_code) const;

 private:
  [[nodiscard]] std::uint64_t kills() const;
  [[nodiscard]] std::string explain_bus_error() const;

  std::filesystem::path world_;
  std::filesystem::path vmstat_;
  std::uint64_t kills_before_;
};

}  // namespace hbmwire::emulation::tool
