// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "tools/doctor/checks/hardware.hpp"
#include "tools/doctor/checks/reading.hpp"
#include "tools/doctor/checks/rules.hpp"
#include "tools/doctor/evidence/pci_config.hpp"

namespace hbmwire::tools::doctor::rules {
namespace {

constexpr unsigned kIpcLock = 14;  // CAP_IPC_LOCK

// A program needs a descriptor for each dma-buf that it keeps. The usual limit is enough for most.
constexpr std::uint64_t kFewFiles = 1024;

// The objects that one process with one endpoint needs: a protection domain, queues, and a few
// regions.
constexpr std::uint64_t kFewObjects = 64;

bool is_unlimited(const Json& limit, std::string_view kind) {
  return text_at(limit, kind) == "unlimited";
}

std::string limit_words(const Json& limit) {
  const auto words = [&](std::string_view kind) {
    const auto number = number_at(limit, kind);
    return number ? std::to_string(*number) : text_at(limit, kind);
  };
  return fmt::format("soft {}, hard {}", words("soft"), words("hard"));
}

bool is_limit(const Json& limit) {
  return is_unlimited(limit, "soft") || number_at(limit, "soft").has_value();
}

// Whether this is the first user namespace; empty if that cannot be seen. The kernel checks
// CAP_IPC_LOCK there (capable(9)), and ignores a capability of another user namespace.
std::optional<bool> in_initial_user_namespace(Evidence& machine) {
  const Answer link = machine.link("/proc/self/ns/user");
  const int error = error_below(machine, "/proc/self", link.error);
  if (error == ENOENT) return true;  // a kernel without user namespaces
  if (error != 0) return std::nullopt;
  return link.value == "user:[4026531837]";  // PROC_USER_INIT_INO, include/linux/proc_ns.h
}

Finding judge_memlock(Evidence& machine, const Json& limit) {
  Finding finding{.check = "limits",
                  .subject = "locked memory",
                  .verdict = Verdict::good,
                  .source = "getrlimit(2) RLIMIT_MEMLOCK",
                  .found = limit_words(limit),
                  .wanted = "unlimited, or CAP_IPC_LOCK",
                  .remedy = {}};
  if (is_unlimited(limit, "soft")) return finding;
  const auto has_right = has_capability(machine, kIpcLock);
  const auto is_initial = in_initial_user_namespace(machine);
  if (has_right.value_or(false) && is_initial.value_or(false)) {
    finding.found += ", with CAP_IPC_LOCK";
    return finding;
  }
  if (has_right.value_or(false) && is_initial)
    finding.found += ", and CAP_IPC_LOCK of a user namespace, which does not count";
  const bool surely_not = !has_right.value_or(true) || !is_initial.value_or(true);
  finding.verdict = surely_not ? Verdict::bad : Verdict::unknown;
  finding.remedy =
      is_unlimited(limit, "hard")
          ? "ulimit -l unlimited"
          : "echo '* - memlock unlimited' > /etc/security/limits.d/rdma.conf and log in again; "
            "LimitMEMLOCK=infinity of a service; docker run --ulimit memlock=-1";
  return finding;
}

Finding judge_open_files(const Json& limit) {
  const bool good =
      is_unlimited(limit, "soft") || number_at(limit, "soft").value_or(0) >= kFewFiles;
  return {.check = "limits",
          .subject = "open files",
          .verdict = good ? Verdict::good : Verdict::bad,
          .source = "getrlimit(2) RLIMIT_NOFILE",
          .found = limit_words(limit),
          .wanted = "1024 or more; 65536 for programs that keep many dma-bufs",
          .remedy = good ? "" : "ulimit -n 65536"};
}

// The folders of the cgroups of this process, from the innermost up to the root.
std::vector<std::string> rdma_cgroups(std::string_view membership) {
  std::vector<std::string> folders;
  for (const std::string_view line : lines_in(membership)) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && controllers != "rdma") continue;
    const std::string root = controllers.empty() ? "/sys/fs/cgroup" : "/sys/fs/cgroup/rdma";
    // From the innermost folder up, one name less each time.
    for (std::string path(line.substr(second + 1)); path.size() > 1;
         path.resize(path.find_last_of('/') == std::string::npos ? 0 : path.find_last_of('/')))
      folders.push_back(root + path);
    folders.push_back(root);
  }
  return folders;
}

// Whether a path can be written in a command without quotes.
bool is_plain_path(std::string_view path) {
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('/', 1), path.size());
    if (!is_device_name(path.substr(1, end - 1))) return false;
    path.remove_prefix(end);
  }
  return true;
}

// Judges the quota of one device, given a line such as "mlx5_0 hca_handle=2 hca_object=max". Empty
// for devices that the hardware does not have.
std::optional<Finding> judge_quota(const Hardware& hardware, const std::string& source,
                                   std::string_view line) {
  const auto words = words_in(line);
  if (words.empty()) return std::nullopt;
  const std::string device(words.front());
  if (std::ranges::find(hardware.nics, device, &Nic::name) == hardware.nics.end())
    return std::nullopt;
  const auto quota = [&](std::string_view key) -> std::uint64_t {
    for (const std::string_view word : words) {
      if (word.starts_with(key))
        return leading_number(word.substr(key.size())).value_or(UINT64_MAX);
    }
    return UINT64_MAX;
  };
  const bool good = quota("hca_handle=") >= 1 && quota("hca_object=") >= kFewObjects;
  return Finding{
      .check = "rdma-cgroup",
      .subject = device,
      .verdict = good ? Verdict::good : Verdict::bad,
      .source = source,
      .found = first_line(line.substr(device.size())),
      .wanted = fmt::format("hca_handle=max, and hca_object=max or {} at least", kFewObjects),
      .remedy = good ? ""
                : is_plain_path(source)
                    ? fmt::format("echo '{} hca_handle=max hca_object=max' > {}", device, source)
                    : "hca_handle=max and hca_object=max in that file"};
}

}  // namespace

Findings limits(Evidence& machine) {
  const Told told = ask(machine, "limits");
  const Json& memlock = member(told.value, "memlock");
  const Json& files = member(told.value, "nofile");
  if (told.error != 0 || !is_limit(memlock) || !is_limit(files)) {
    return {unknown_for("limits", "", "getrlimit(2)", told.error == 0 ? EPROTO : told.error,
                        "no limit of locked memory")};
  }
  return {judge_memlock(machine, memlock), judge_open_files(files)};
}

Findings rdma_cgroup(Evidence& machine) {
  const Hardware hardware = hardware_of(machine);
  if (hardware.nics.empty()) return {};
  Findings findings;
  const std::string wanted = "no limit of RDMA objects";
  const Answer membership = machine.file("/proc/self/cgroup");
  const int error = error_below(machine, "/proc/self", membership.error);
  if (is_unread(error)) return {unknown_for("rdma-cgroup", "", "/proc/self/cgroup", error, wanted)};
  for (const std::string& folder : rdma_cgroups(membership.value)) {
    const std::string source = folder + "/rdma.max";
    const Answer quotas = machine.file(source);
    if (is_unread(quotas.error))
      findings.push_back(unknown_for("rdma-cgroup", "", source, quotas.error, wanted));
    for (const std::string_view line : lines_in(quotas.value)) {
      if (auto finding = judge_quota(hardware, source, line))
        findings.push_back(std::move(*finding));
    }
  }
  return findings;
}

Findings rdma_namespace(Evidence& machine) {
  const std::string source = "/sys/module/ib_core/parameters/netns_mode";
  const Answer mode = read_line(machine, source);
  const Hardware hardware = hardware_of(machine);
  if (error_below(machine, "/sys/module", mode.error) == ENOENT) return {};
  const std::string wanted = "shared, or a NIC of this namespace's own";
  if (mode.error != 0) return {unknown_for("rdma-namespace", "", source, mode.error, wanted)};
  Finding finding{.check = "rdma-namespace",
                  .subject = {},
                  .verdict = Verdict::good,
                  .source = source,
                  .found = mode.value == "N" ? "exclusive" : "shared",
                  .wanted = wanted,
                  .remedy = {}};
  if (mode.value != "N") return {finding};
  if (hardware.nics.empty() && hardware.nics_gap)
    return {unknown_for_gap("rdma-namespace", *hardware.nics_gap)};
  finding.found +=
      hardware.nics.empty() ? ", and this namespace has no NIC" : ", with NICs of its own";
  int error = 0;
  const auto function = hardware.nics.empty() ? rdma_function(machine, error) : std::nullopt;
  if (!function && error != 0)
    return {unknown_for("rdma-namespace", "", "/sys/bus/pci/devices", error, wanted)};
  if (!hardware.nics.empty() || !function) return {finding};
  finding.subject = *function;
  finding.verdict = Verdict::bad;
  finding.remedy = "rdma system set netns shared, or rdma dev set DEVICE netns PID";
  return {finding};
}

Findings fork(Evidence& machine) {
  const Hardware hardware = hardware_of(machine);
  // all_checks() leaves out emulated NICs: they are no devices of the kernel, which libibverbs
  // asks.
  if (hardware.nics.empty()) return {};
  const std::string source = "ibv_is_fork_initialized(3)";
  const Told told = ask(machine, "fork");
  const std::string found = text_at(told.value, "verbs");
  const std::string wanted = "unneeded or enabled";
  if (found.empty())
    return {unknown_for("fork", "", source, told.error == 0 ? EPROTO : told.error, wanted)};
  const bool good = found != "disabled";
  return {{.check = "fork",
           .subject = {},
           .verdict = good ? Verdict::good : Verdict::bad,
           .source = source,
           .found = found,
           .wanted = wanted,
           .remedy = good ? "" : "export RDMAV_FORK_SAFE=1"}};
}

// With scatter-to-CQE the provider copies small reads to their target by memcpy, which fails for
// device memory. The library sets the variable MLX5_SCATTER_TO_CQE to 0 if it is not set.
Findings scatter_to_cqe(Evidence& machine) {
  const Hardware hardware = hardware_of(machine);
  const bool applies =
      !hardware.cards.empty() &&
      std::ranges::find(hardware.nics, "mlx5_core", &Nic::driver) != hardware.nics.end();
  if (!applies) return {};
  const Told told = ask(machine, "environment");
  const std::string wanted = "0, or not set: hbmwire sets it";
  if (told.error != 0)
    return {unknown_for("scatter-to-cqe", "", "environment", told.error, wanted)};
  const std::string value = text_at(told.value, "MLX5_SCATTER_TO_CQE");
  const bool good = value.empty() || value == "0";
  return {{.check = "scatter-to-cqe",
           .subject = {},
           .verdict = good ? Verdict::good : Verdict::bad,
           .source = "environment",
           .found = value.empty() ? "not set" : "MLX5_SCATTER_TO_CQE=" + value,
           .wanted = wanted,
           .remedy = good ? "" : "unset MLX5_SCATTER_TO_CQE"}};
}

}  // namespace hbmwire::tools::doctor::rules
