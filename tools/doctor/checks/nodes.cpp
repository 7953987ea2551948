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
  std::string subject;  // the device that the node belongs to
  std::string group;    // the group that usually may open it
};

// The device nodes that a user needs, and the errors of those that could not be read.
class Nodes {
 public:
  explicit Nodes(Evidence& machine) : machine_(machine) {}

  void add_nics(const Hardware& hardware) {
    const std::string verbs = "/sys/class/infiniband_verbs";
    for (const std::string& name : names_in(verbs)) {
      if (!name.starts_with("uverbs") || !is_device_name(name)) continue;
      const std::string source = verbs + "/" + name + "/ibdev";
      const Answer device = read_line(machine_, source);
      note("", source, device.error);
      if (std::ranges::find(hardware.nics, device.value, &Nic::name) != hardware.nics.end())
        add("/dev/infiniband/" + name, device.value, "rdma");
    }
    // Judged only if the module is loaded, because connections by RDMA-CM are optional.
    const std::string manager = "/sys/class/misc/rdma_cm";
    const int error = machine_.folder(manager).error;
    note("RDMA-CM", manager, error);
    if (error == 0) add("/dev/infiniband/rdma_cm", "RDMA-CM", "rdma");
  }

  void add_cards(const Hardware& hardware) {
    for (const Card& card : hardware.cards) {
      if (card.type == "gaudi") add_gaudi(card);
      if (card.type == "rocm") add_rocm(card);
    }
    if (hardware.has("rocm")) add("/dev/kfd", "rocm", "render");
    if (hardware.has("cuda")) {
      for (const char* path : {"/dev/nvidiactl", "/dev/nvidia-uvm"}) add(path, "cuda", "video");
    }
  }

  [[nodiscard]] const std::vector<Node>& nodes() const noexcept { return nodes_; }

  [[nodiscard]] const Findings& hidden() const noexcept { return hidden_; }

 private:
  void add(std::string path, std::string subject, std::string group) {
    nodes_.push_back(
        {.path = std::move(path), .subject = std::move(subject), .group = std::move(group)});
  }

  void note(const std::string& subject, const std::string& source, int error) {
    if (is_unread(error))
      hidden_.push_back(unknown_for("nodes", subject, source, error, "which nodes a device has"));
  }

  std::vector<std::string> names_in(const std::string& folder) {
    Names names = machine_.folder(folder);
    note("", folder, names.error);
    return std::move(names.values);
  }

  void add_gaudi(const Card& card) {
    int error = 0;
    if (const auto entry = gaudi_entry(machine_, card.pci_address, error)) {
      add(entry->node, card.pci_address, "render");
    } else {
      note(card.pci_address, "/sys/class/accel", error);
    }
  }

  void add_rocm(const Card& card) {
    for (const std::string& name : names_in(pci_path(card.pci_address, "drm"))) {
      if (name.starts_with("renderD") && is_device_name(name))
        add("/dev/dri/" + name, card.pci_address, "render");
    }
  }

  Evidence& machine_;
  std::vector<Node> nodes_;
  Findings hidden_;
};

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
    // A dump of another program tells nothing about a user. EPERM there stands for everything that
    // the dump lacks.
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

// The sign that this is a container: the root is an overlay file system, or the engine left a mark.
// If there is no mark, `hidden` tells what could not be read.
std::optional<std::string> container_mark(Evidence& machine, Gap& hidden) {
  const auto note = [&](const std::string& source, int error) {
    if (hidden.error == 0 && is_unread(error)) hidden = {.source = source, .error = error};
  };
  for (const char* path : {"/.dockerenv", "/run/.containerenv"}) {
    const int error = machine.file(path).error;
    if (error == 0) return path;
    note(path, error);
  }
  const std::string membership = "/proc/1/cgroup";
  const Answer groups = machine.file(membership);
  for (const char* engine : {"docker", "kubepods", "containerd", "libpod", "lxc"}) {
    if (groups.value.find(engine) != std::string::npos) return membership;
  }
  note(membership, error_below(machine, "/proc/self", groups.error));
  const std::string table = "/proc/self/mountinfo";
  const Answer mounts = machine.file(table);
  for (const std::string_view line : lines_in(mounts.value)) {
    const auto words = words_in(line);
    constexpr std::size_t kMountPoint = 4;
    if (words.size() > kMountPoint && words[kMountPoint] == "/" &&
        line.find(" - overlay ") != std::string_view::npos)
      return table;
  }
  note(table, error_below(machine, "/proc/self", mounts.error));
  return std::nullopt;
}

// The names of the folders and nodes that a container needs for this machine's devices and does not
// have.
std::vector<std::string> lacking(Evidence& machine, const Hardware& hardware, Gap& hidden) {
  std::vector<std::string> missing;
  const auto want_folder = [&](const char* path) {
    const int error = machine.folder(path).error;
    if (error == ENOENT) missing.emplace_back(path);
    if (is_unread(error)) hidden = {.source = path, .error = error};
  };
  const auto want_node = [&](const char* path) {
    if (machine.access(path).error == ENOENT) missing.emplace_back(path);
  };
  want_folder("/sys/bus/pci/devices");
  if (!hardware.nics.empty()) want_folder("/dev/infiniband");
  const int accel = hardware.has("gaudi") ? machine.folder("/sys/class/accel").error : ENOENT;
  if (accel == 0) want_folder("/dev/accel");
  if (is_unread(accel)) hidden = {.source = "/sys/class/accel", .error = accel};
  if (hardware.has("cuda")) want_node("/dev/nvidiactl");
  if (hardware.has("rocm")) want_node("/dev/kfd");
  return missing;
}

}  // namespace

Findings nodes(Evidence& machine) {
  const Hardware hardware = hardware_of(machine);
  Nodes wanted(machine);
  wanted.add_nics(hardware);
  wanted.add_cards(hardware);
  Findings findings = wanted.hidden();
  for (const Node& node : wanted.nodes()) findings.push_back(judge_node(machine, node));
  return findings;
}

Findings container(Evidence& machine) {
  const std::string wanted = "the devices and /sys";
  const Hardware hardware = hardware_of(machine);
  Gap hidden;
  const auto mark = container_mark(machine, hidden);
  if (!mark) {
    if (hidden.error == 0) return {};
    return {
        unknown_for("container", "", hidden.source, hidden.error, "whether this is a container")};
  }
  Finding finding{.check = "container",
                  .subject = {},
                  .verdict = Verdict::good,
                  .source = *mark,
                  .found = "has " + wanted,
                  .wanted = wanted,
                  .remedy = {}};
  hidden = {};
  const auto missing = lacking(machine, hardware, hidden);
  if (missing.empty() && hidden.error != 0)
    return {unknown_for("container", "", hidden.source, hidden.error, wanted)};
  if (missing.empty()) return {finding};
  finding.verdict = Verdict::bad;
  finding.found = fmt::format("lacks {}", fmt::join(missing, ", "));
  finding.remedy = "docker run";
  for (const std::string& path : missing)
    finding.remedy += path.starts_with("/sys") ? " -v /sys:/sys:ro" : " --device=" + path;
  return {finding};
}

}  // namespace hbmwire::tools::doctor::rules
