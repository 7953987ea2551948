// SPDX-License-Identifier: MIT
#include "tools/doctor/checks/kernel_facts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "tools/doctor/checks/reading.hpp"

namespace hbmwire::tools::doctor {
namespace {

// The paths where distributions keep a kernel's configuration.
std::vector<std::string> config_files(const std::string& release) {
  std::vector<std::string> files{"/proc/config.gz"};
  if (release.empty()) return files;
  for (const char* pattern :
       {"/boot/config-{}", "/lib/modules/{}/config", "/lib/modules/{}/build/.config",
        "/usr/lib/modules/{}/config", "/usr/lib/kernel/config-{}", "/usr/lib/ostree-boot/config-{}",
        "/usr/src/linux-headers-{}/.config"})
    files.push_back(fmt::format(fmt::runtime(pattern), release));
  return files;
}

// Returns the value of "CONFIG_X=y", and "n" for "# CONFIG_X is not set".
std::string value_in(std::string_view config, const std::string& name) {
  if (const auto value = value_of_key(config, "CONFIG_" + name + "=")) return *value;
  return value_of_key(config, "# CONFIG_" + name + " is not set") ? "n" : std::string();
}

}  // namespace

KernelOption kernel_option(Evidence& machine, const std::string& name) {
  KernelOption option{.error = ENOENT, .source = "/proc/config.gz", .value = {}};
  for (const std::string& path : config_files(kernel_release(machine))) {
    const Answer config = machine.file(path);
    if (config.error == 0)
      return {.error = 0, .source = path, .value = value_in(config.value, name)};
    if (config.error != ENOENT && option.error == ENOENT)
      option = {.error = config.error, .source = path, .value = {}};
  }
  return option;
}

std::optional<bool> has_symbol(Evidence& machine, const std::string& name) {
  const Answer symbols = machine.file("/proc/kallsyms");
  // Each kernel with dma-bufs has at least one of the wanted functions. An empty result means that
  // the list itself is missing.
  if (symbols.error != 0 || symbols.value.empty()) return std::nullopt;
  constexpr std::size_t kName = 2;  // "0000000000000000 T ib_umem_dmabuf_get\t[ib_uverbs]"
  return std::ranges::any_of(lines_in(symbols.value), [&](std::string_view line) {
    const auto words = words_in(line);
    return words.size() > kName && words[kName] == name;
  });
}

std::optional<bool> has_module(Evidence& machine, const std::string& name) {
  const int error =
      error_below(machine, "/sys/module", machine.folder("/sys/module/" + name).error);
  if (is_unread(error)) return std::nullopt;
  return error == 0;
}

}  // namespace hbmwire::tools::doctor
