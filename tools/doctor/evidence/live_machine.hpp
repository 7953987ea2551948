// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <map>
#include <string>

#include "tools/doctor/evidence/evidence.hpp"

namespace hbmwire::tools::doctor {

/// The running machine. Reads only regular files, and opens no device.
///
/// If SYSFS_PATH, a variable of libibverbs, is set, "/sys" means that tree first, as for libibverbs
/// and the library. Emulated hardware appears this way. Paths that the tree lacks are read from the
/// machine, except in the folders of devices: there the tree hides the machine's own devices.
class LiveMachine final : public Evidence {
 public:
  /// Returns {"value": ...} or {"error": ERRNO}.
  using Provider = std::function<Json()>;

  LiveMachine();

  Answer file(const std::string& path) override;
  Names folder(const std::string& path) override;
  Answer link(const std::string& path) override;
  Answer real_path(const std::string& path) override;
  Answer access(const std::string& path) override;
  Json call(const std::string& name) override;

  /// Adds a call, or replaces one.
  void add_call(const std::string& name, Provider provider);

 private:
  /// The path to read instead of this one: in the tree of SYSFS_PATH, or the same.
  [[nodiscard]] std::string place_of(const std::string& path) const;

  std::string sysfs_;  ///< SYSFS_PATH without symbolic links; empty: /sys
  std::map<std::string, Provider> calls_;
};

}  // namespace hbmwire::tools::doctor
