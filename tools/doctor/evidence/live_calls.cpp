// SPDX-License-Identifier: MIT
#include "tools/doctor/evidence/live_calls.hpp"

#include <sched.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <string_view>
#include <vector>

#include "hbmwire/settings.hpp"

#include "tools/info/json.hpp"
#include "tools/info/machine.hpp"

extern "C" char** environ;

namespace hbmwire::tools::doctor {
namespace {

Json value_of(Json value) {
  Json answer = Json::object();
  answer["value"] = std::move(value);
  return answer;
}

Json kernel_name() {
  utsname names{};
  if (::uname(&names) != 0) return {{"error", errno}};
  return value_of({{"release", names.release}, {"machine", names.machine}});
}

Json limit_number(rlim_t limit) { return limit == RLIM_INFINITY ? Json("unlimited") : Json(limit); }

Json process_limits() {
  constexpr std::pair<const char*, __rlimit_resource> kLimits[] = {{"memlock", RLIMIT_MEMLOCK},
                                                                   {"nofile", RLIMIT_NOFILE}};
  Json value = Json::object();
  for (const auto& [name, resource] : kLimits) {
    rlimit limit{};
    if (::getrlimit(resource, &limit) != 0) return {{"error", errno}};
    value[name] = {{"soft", limit_number(limit.rlim_cur)}, {"hard", limit_number(limit.rlim_max)}};
  }
  return value_of(std::move(value));
}

/// A field of /proc/self/status; empty if there is none.
std::string status_field(std::string_view name) {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (!line.starts_with(name)) continue;
    const std::size_t from = line.find_first_not_of(" \t", name.size());
    return from == std::string::npos ? "" : line.substr(from);
  }
  return "";
}

Json process_identity() {
  const int count = ::getgroups(0, nullptr);
  std::vector<gid_t> groups(count > 0 ? static_cast<std::size_t>(count) : 0);
  if (count < 0 || ::getgroups(count, groups.data()) < 0) return {{"error", errno}};
  groups.push_back(::getegid());
  std::ranges::sort(groups);
  groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
  const std::string capabilities = status_field("CapEff:");
  return value_of({{"uid", ::geteuid()},
                   {"groups", groups},
                   {"capabilities", capabilities.empty() ? Json(nullptr) : Json(capabilities)}});
}

Json process_affinity() {
  // The kernel refuses a set that is smaller than its own, which has at most 8192 CPUs.
  constexpr std::size_t kCpusOfTheKernel = 8192;
  std::vector<cpu_set_t> sets(kCpusOfTheKernel / CPU_SETSIZE);
  const std::size_t bytes = sets.size() * sizeof(cpu_set_t);
  if (::sched_getaffinity(0, bytes, sets.data()) != 0) return {{"error", errno}};
  Json cpus = Json::array();
  for (std::size_t cpu = 0; cpu < kCpusOfTheKernel; ++cpu) {
    if (CPU_ISSET_S(cpu, bytes, sets.data())) cpus.push_back(cpu);
  }
  return value_of({{"cpus", cpus}});
}

/// Selects variables that change the behaviour of libibverbs, the vendors' libraries or hbmwire.
bool matters(std::string_view variable) {
  constexpr std::string_view kBeginnings[] = {"HBMWIRE_", "RDMAV_", "IBV_",  "MLX4_",
                                              "MLX5_",    "BNXT_",  "HWLOC_"};
  constexpr std::string_view kWhole[] = {"CUDA_VISIBLE_DEVICES",   "HABANA_VISIBLE_DEVICES",
                                         "HABANA_VISIBLE_MODULES", "HIP_VISIBLE_DEVICES",
                                         "HLS_MODULE_ID",          "NVIDIA_VISIBLE_DEVICES",
                                         "ROCR_VISIBLE_DEVICES",   "SYSFS_PATH"};
  return std::ranges::any_of(kBeginnings, [&](auto text) { return variable.starts_with(text); }) ||
         std::ranges::find(kWhole, variable) != std::end(kWhole);
}

Json process_environment() {
  Json variables = Json::object();
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos || !matters(text.substr(0, equals))) continue;
    variables[std::string(text.substr(0, equals))] = std::string(text.substr(equals + 1));
  }
  return value_of(std::move(variables));
}

/// The object of `hbmwire info --json`, made by the same functions.
Json machine_info() {
  const auto machine = look_at_machine();
  if (!machine) {
    const int error = machine.error().exit_code == kExitUsage ? EINVAL : EIO;
    return {{"error", error},
            {"text", machine.error().text},
            {"hint", to_string(machine.error().hint)},
            {"emulated", is_emulated()}};
  }
  Json value = version_json();
  value.update(settings_json(describe_settings()));
  value.update(machine_json(*machine));
  value["emulated"] = is_emulated();
  return value_of(std::move(value));
}

}  // namespace

std::map<std::string, std::function<Json()>> standard_calls() {
  return {{"uname", kernel_name},
          {"limits", process_limits},
          {"identity", process_identity},
          {"affinity", process_affinity},
          {"environment", process_environment},
          {"info", machine_info},
          {"fork", fork_state},
          {"hwloc", hwloc_xml}};
}

Json call_about(const std::string& call, const std::string& argument) {
  if (call == "modinfo") return module_info(argument);
  if (call == "ethtool") return interface_statistics(argument);
  return {{"error", ENOSYS}};
}

}  // namespace hbmwire::tools::doctor
