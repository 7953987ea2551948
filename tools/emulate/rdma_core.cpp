// SPDX-License-Identifier: MIT
#include "tools/emulate/rdma_core.hpp"

#include <dlfcn.h>
#include <fmt/core.h>
#include <link.h>

#include <vector>

namespace hbmwire::tools::emulate {
namespace {

constexpr const char* kRegister = "verbs_register_driver_34";
constexpr const char* kPrivateAbi = "IBVERBS_PRIVATE_34";

// "libibverbs.so.1.14.58.0": the fourth number is rdma-core's own version.
std::string version_of(void* library) {
  link_map* map = nullptr;
  if (::dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) return "unknown";
  std::error_code failure;
  const auto file = std::filesystem::canonical(map->l_name, failure);
  if (failure) return "unknown";
  auto name = file.filename().string();
  constexpr std::string_view kPrefix = "libibverbs.so.1.";
  if (!name.starts_with(kPrefix)) return file.string();
  const auto minor_end = name.find('.', kPrefix.size());
  return minor_end == std::string::npos ? name : name.substr(minor_end + 1);
}

}  // namespace

Status check_rdma_core() {
  void* const library = ::dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) {
    return problem(fmt::format(
        "emulated NICs need libibverbs.so.1, which cannot be loaded ({}); install libibverbs1, "
        "or ask for --nics 0",
        ::dlerror()));
  }
  Status status;
  if (::dlvsym(library, kRegister, kPrivateAbi) == nullptr) {
    status = problem(fmt::format(
        "the installed rdma-core (version {}) has a private interface that the emulated NIC "
        "does not know; it works with rdma-core 36 to 56, which provide {}",
        version_of(library), kPrivateAbi));
  }
  ::dlclose(library);
  return status;
}

Result<std::filesystem::path> emulation_directory(const Hardware& hardware) {
  std::error_code failure;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", failure);
  if (failure) return cannot("find this program's own file", failure.value());

  std::vector<std::string> needed;
  if (hardware.nics > 0) needed.push_back(fmt::format("{}-rdmav34.so", kPlugin));
  if (hardware.cuda > 0) needed.emplace_back("libcuda.so.1");
  if (hardware.gaudi > 0) needed.insert(needed.end(), {"libhl-thunk.so", "libSynapse.so"});

  if (hardware.rocm > 0) needed.insert(needed.end(), {"libhsa-runtime64.so.1", "libamdhip64.so.7"});

  // The build tree has bin/ and lib/ beside each other; an installation may have
  // lib/<architecture>/.
  std::filesystem::path last;
  std::string missing;
  for (const char* from_bin : {HBMWIRE_EMULATION_FROM_BUILD_BIN, HBMWIRE_EMULATION_FROM_BIN}) {
    last = (program.parent_path() / from_bin).lexically_normal();
    missing.clear();
    for (const auto& name : needed) {
      if (missing.empty() && !std::filesystem::exists(last / name, failure)) missing = name;
    }
    if (missing.empty()) return last;
  }
  return problem(fmt::format(
      "{} is missing in {}; build the target hbmwire_emulation, or install hbmwire again", missing,
      last.string()));
}

}  // namespace hbmwire::tools::emulate
