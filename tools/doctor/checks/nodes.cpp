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

struct Node {
  std::string path;
  std::string subject;  // the device that it is of
  std::string group;    // that usually may open it
};

void add_nic_nodes(Evidence& machine, const Hardware& hardware, std::vector<Node>& nodes) {
  for (const std::string& name : machine.folder("/sys/class/infiniband_verbs").values) {
    if (!name.starts_with("uverbs")) continue;
    const std::string device =
        read_line(machine, "/sys/class/infiniband_verbs/" + name + "/ibdev").value;
    if (std::ranges::find(hardware.nics, device, &Nic::name) != hardware.nics.end())
      nodes.push_back({.path = "/dev/infiniband/" + name, .subject = device, .group = "rdma"});
  }
  // Only where its module is loaded: connections by RDMA-CM are an option.
  if (machine.folder("/sys/class/misc/rdma_cm").error == 0)
    nodes.push_back({.path = "/dev/infiniband/rdma_cm", .subject = "RDMA-CM", .group = "rdma"});
}

void add_card_nodes(Evidence& machine, const Hardware& hardware, std::vector<Node>& nodes) {
  for (const Card& card : hardware.cards) {
    if (card.type == "gaudi") {
      if (const auto entry = gaudi_entry(machine, card.pci_address))
        nodes.push_back({.path = entry->node, .subject = card.pci_address, .group = "render"});
    } else if (card.type == "rocm") {
      for (const std::string& name : machine.folder(pci_path(card.pci_address, "drm")).values) {
        if (name.starts_with("renderD"))
          nodes.push_back(
              {.path = "/dev/dri/" + name, .subject = card.pci_address, .group = "render"});
      }
    }
  }
  if (hardware.has("rocm"))
    nodes.push_back({.path = "/dev/kfd", .subject = "rocm", .group = "render"});
  if (hardware.has("cuda")) {
    for (const char* path : {"/dev/nvidiactl", "/dev/nvidia-uvm"})
      nodes.push_back({.path = path, .subject = "cuda", .group = "video"});
  }
}

Finding judge_node(Evidence& machine, const Node& node) {
  Finding finding{.check = "nodes",
                  .subject = node.subject,
                  .source = "access(2) of " + node.path,
                  .found = node.path,
                  .wanted = "may be read and written",
                  .remedy = {}};
  const int error = machine.access(node.path).error;
  if (error == 0) {
    finding.verdict = Verdict::good;
  } else if (is_forbidden(error) && ask(machine, "identity").error != 0) {
    // A dump of another program tells of no user: there EPERM stands for all that it lacks.
    return unknown_for(finding.check, node.subject, finding.source, error, finding.wanted);
  } else if (error == EPERM) {
    finding.verdict = Verdict::bad;
    finding.found += ": " + error_words(error) + ", by the container's list of devices";
    finding.remedy = "start the container with --device=" + node.path;
  } else if (error == EACCES) {
    finding.verdict = Verdict::bad;
    finding.found += ": " + error_words(error);
    finding.remedy = fmt::format(
        "usermod -aG {} $USER, and log in again (ls -l {} tells the group)", node.group, node.path);
  } else if (error == ENOENT) {
    finding.verdict = Verdict::bad;
    finding.found += ": " + error_words(error);
    finding.remedy = "load its driver; start a container with --device=" + node.path;
  } else {
    return unknown_for(finding.check, node.subject, finding.source, error, finding.wanted);
  }
  return finding;
}

// A container's root is a file system of layers, or its engine has left a mark.
std::optional<std::string> container_mark(Evidence& machine, int& error) {
  for (const char* path : {"/.dockerenv", "/run/.containerenv"}) {
    if (machine.file(path).error == 0) return path;
  }
  const Answer groups = machine.file("/proc/1/cgroup");
  for (const char* engine : {"docker", "kubepods", "containerd", "libpod", "lxc"}) {
    if (groups.value.find(engine) != std::string::npos) return "/proc/1/cgroup";
  }
  const Answer mounts = machine.file("/proc/self/mountinfo");
  for (const std::string_view line : lines_in(mounts.value)) {
    const auto words = words_in(line);
    constexpr std::size_t kMountPoint = 4;
    if (words.size() > kMountPoint && words[kMountPoint] == "/" &&
        line.find(" - overlay ") != std::string_view::npos)
      return "/proc/self/mountinfo";
  }
  error = is_forbidden(groups.error) ? groups.error : 0;
  return std::nullopt;
}

// What a container of this machine's devices lacks: folders and nodes by their names.
std::vector<std::string> lacking(Evidence& machine, const Hardware& hardware) {
  std::vector<std::string> missing;
  const auto want_folder = [&](const char* path) {
    if (machine.folder(path).error == ENOENT) missing.emplace_back(path);
  };
  const auto want_node = [&](const char* path) {
    if (machine.access(path).error == ENOENT) missing.emplace_back(path);
  };
  want_folder("/sys/bus/pci/devices");
  if (!hardware.nics.empty()) want_folder("/dev/infiniband");
  if (hardware.has("gaudi") && machine.folder("/sys/class/accel").error == 0)
    want_folder("/dev/accel");
  if (hardware.has("cuda")) want_node("/dev/nvidiactl");
  if (hardware.has("rocm")) want_node("/dev/kfd");
  return missing;
}

}  // namespace

Findings nodes(Evidence& machine) {
  const Hardware hardware = hardware_of(machine);
  if (hardware.emulated) return {};  // its devices have no nodes
  std::vector<Node> wanted;
  add_nic_nodes(machine, hardware, wanted);
  add_card_nodes(machine, hardware, wanted);
  Findings findings;
  const std::string verbs = "/sys/class/infiniband_verbs";
  if (const int error = machine.folder(verbs).error; is_forbidden(error))
    findings.push_back(unknown_for("nodes", {}, verbs, error, "which nodes the NICs have"));
  for (const Node& node : wanted) findings.push_back(judge_node(machine, node));
  return findings;
}

Findings container(Evidence& machine) {
  const std::string wanted = "the devices and /sys";
  const Hardware hardware = hardware_of(machine);
  if (hardware.emulated) return {};
  int error = 0;
  const auto mark = container_mark(machine, error);
  if (!mark) {
    if (error == 0) return {};
    return {unknown_for("container", "", "/proc/1/cgroup", error, "whether this is a container")};
  }
  Finding finding{.check = "container",
                  .subject = {},
                  .verdict = Verdict::good,
                  .source = *mark,
                  .found = "has " + wanted,
                  .wanted = wanted,
                  .remedy = {}};
  const auto missing = lacking(machine, hardware);
  if (missing.empty()) return {finding};
  finding.verdict = Verdict::bad;
  finding.found = fmt::format("lacks {}", fmt::join(missing, ", "));
  finding.remedy = "docker run";
  for (const std::string& path : missing)
    finding.remedy += path.starts_with("/sys") ? " -v /sys:/sys:ro" : " --device=" + path;
  return {finding};
}

}  // namespace hbmwire::tools::doctor::rules
