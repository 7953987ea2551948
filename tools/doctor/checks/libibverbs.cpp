// SPDX-License-Identifier: MIT
#include "tools/doctor/checks/libibverbs.hpp"

#include <string_view>
#include <vector>

#include "tools/doctor/checks/reading.hpp"

namespace hbmwire::tools::doctor {
namespace {

// The folder of Debian for libraries of the machine's architecture, and those of other
// distributions.
std::vector<std::string> library_folders(Evidence& machine) {
  const std::string architecture = text_at(ask(machine, "uname").value, "machine");
  return {"/usr/lib/" + architecture + "-linux-gnu", "/lib/" + architecture + "-linux-gnu",
          "/usr/lib64", "/lib64", "/usr/lib"};
}

}  // namespace

std::optional<Libibverbs> libibverbs_of(Evidence& machine) {
  constexpr std::string_view kPrefix = "libibverbs.so.1.";
  for (const std::string& folder : library_folders(machine)) {
    const std::string path = folder + "/libibverbs.so.1";
    const Answer target = machine.link(path);
    if (is_unread(target.error))
      return Libibverbs{.path = path, .file = "", .abi = 0, .release = "", .error = target.error};
    const std::string file = base_name(target.value);
    if (!file.starts_with(kPrefix)) continue;
    const std::string_view numbers = std::string_view(file).substr(kPrefix.size());
    const auto abi = leading_number(numbers);
    if (!abi) continue;
    const std::size_t dot = numbers.find('.');
    return Libibverbs{
        .path = path,
        .file = file,
        .abi = *abi,
        .release = dot == std::string_view::npos ? "" : std::string(numbers.substr(dot + 1)),
        .error = 0};
  }
  return std::nullopt;
}

}  // namespace hbmwire::tools::doctor
