// SPDX-License-Identifier: MIT
#include "emulation/tool/rdma_core.hpp"

#include <dlfcn.h>
#include <fmt/core.h>

#include <string>
#include <utility>
#include <vector>

#include "emulation/nic/abi/layout.hpp"

namespace hbmwire::emulation::tool {
namespace {

/// The name of the plugin's file that COMMAND's libibverbs will look for.
Result<std::string> find_plugin() {
  void* const library = ::dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) {
    return problem(fmt::format(
        "emulated NICs need libibverbs.so.1, which cannot be loaded ({}); install libibverbs1, "
        "or ask for --nics 0",
        ::dlerror()));
  }
  Result<std::string> plugin;
  if (const nic::abi::Layout* const layout = nic::abi::find_layout(library); layout != nullptr) {
    plugin = fmt::format("{}-rdmav{}.so", kPlugin, layout->abi);
  } else {
    plugin = problem(fmt::format(
        "the installed rdma-core (version {}) has a private interface that the emulated NIC does "
        "not know; it works with {}: install one of these, or ask for --nics 0",
        nic::abi::release_of(library), nic::abi::known_releases()));
  }
  ::dlclose(library);
  return plugin;
}

}  // namespace

Result<std::filesystem::path> emulation_directory(const Hardware& hardware) {
  std::vector<std::string> needed;
  if (hardware.nics > 0) {
    auto plugin = find_plugin();
    if (!plugin) return tl::unexpected(std::move(plugin.error()));
    needed.push_back(std::move(*plugin));
  }
  std::error_code failure;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", failure);
  if (failure) return cannot("find this program's own file", failure.value());

  if (hardware.cuda > 0) needed.emplace_back("libcuda.so.1");
  if (hardware.gaudi > 0) needed.insert(needed.end(), {"libhl-thunk.so", "libSynapse.so"});
  if (hardware.rocm > 0) needed.insert(needed.end(), {"libhsa-runtime64.so.1", "libamdhip64.so.7"});

  // In the build tree libexec/ and lib/ lie side by side. An installation may have
  // lib/<architecture>/.
  std::filesystem::path last;
  std::string missing;
  for (const char* from_tool : {HBMWIRE_EMULATION_FROM_BUILD_TOOL, HBMWIRE_EMULATION_FROM_TOOL}) {
    last = (program.parent_path() / from_tool).lexically_normal();
    missing.clear();
    for (const auto& name : needed) {
      if (missing.empty() && !std::filesystem::exists(last / name, failure)) missing = name;
    }
    if (missing.empty()) return last;
  }
  return problem(
      fmt::format("{} is missing in {}; build the target hbmwire_emulate, or install hbmwire again",
                  missing, last.string()));
}

}  // namespace hbmwire::emulation::tool
