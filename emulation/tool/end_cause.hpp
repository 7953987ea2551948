// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace hbmwire::emulation::tool {

/// Why COMMAND was ended by a signal that no process sent: the emulated hardware's memory is that
/// of files, which a full file system or a full cgroup ends by SIGBUS or SIGKILL.
class EndCause {
 public:
  /// Before COMMAND starts. `world`: a folder of the files. `vmstat`: /proc/vmstat, whose count of
  /// kills for want of memory includes those of every cgroup.
  explicit EndCause(std::filesystem::path world, std::filesystem::path vmstat = "/proc/vmstat");

  /// Explains COMMAND's exit code (a shell's may be that of its own child) in one sentence; empty
  /// where the code tells of no such signal, or the cause is not known.
  [[nodiscard]] std::string explain(int exit_code) const;

 private:
  [[nodiscard]] std::uint64_t kills() const;
  [[nodiscard]] std::string explain_bus_error() const;

  std::filesystem::path world_;
  std::filesystem::path vmstat_;
  std::uint64_t kills_before_;
};

}  // namespace hbmwire::emulation::tool
