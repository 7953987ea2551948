// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>

#include "tools/doctor/evidence/evidence.hpp"

/// The kernel's build options and symbols. Evidence::file() returns only those lines of these files
/// that concern RDMA, dma-bufs and accelerators, and unpacks /proc/config.gz.
namespace hbmwire::tools::doctor {

/// An option of the running kernel's configuration.
struct KernelOption {
  int error = 0;       ///< errno if none of the files that may have it can be read
  std::string source;  ///< the file
  std::string value;   ///< "y", "m", "n"; empty if the file does not have the option
};

/// `name` without "CONFIG_".
[[nodiscard]] KernelOption kernel_option(Evidence& machine, const std::string& name);

/// Whether the kernel or a loaded module has a function, by /proc/kallsyms; empty if that file
/// lists no symbols.
[[nodiscard]] std::optional<bool> has_symbol(Evidence& machine, const std::string& name);

/// Whether a module is loaded, or is built in and has parameters; empty if that cannot be seen.
[[nodiscard]] std::optional<bool> has_module(Evidence& machine, const std::string& name);

}  // namespace hbmwire::tools::doctor
