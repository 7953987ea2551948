// SPDX-License-Identifier: MIT
#include "tools/doctor/report/ranking.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "tools/doctor/report/groups.hpp"

namespace hbmwire::tools::doctor {
namespace {

constexpr std::size_t kMostChecks = 8;

/// The checks that may explain a step, a hint, or both. An empty word matches any.
struct Row {
  std::string_view step;
  std::string_view hint;
  std::array<std::string_view, kMostChecks> checks;  // the most likely first
};

// Hints come before steps, because they say more. A step alone matches all its failures.
constexpr Row kRows[] = {
    {"", "no_rdma_device", {"nodes", "container", "rdma-namespace", "rdma-core"}},
    {"", "nic_permission", {"nodes", "container"}},
    {"", "no_active_port", {"port"}},
    {"", "no_usable_gid", {"gids"}},
    {"", "gaudi_resetting", {"gaudi-driver"}},
    {"", "no_gaudi_device", {"gaudi-driver", "loaded-modules", "nodes", "container"}},
    {"", "no_cuda_device", {"nvidia-driver", "loaded-modules", "nodes", "container"}},
    {"", "no_rocm_device", {"loaded-modules", "nodes", "container"}},
    {"",
     "dmabuf_not_supported",
     {"kernel", "kernel-symbols", "nic-imports", "rdma-core", "kernel-options"}},
    {"", "dmabuf_no_p2p", {"kernel-options", "iommu", "acs", "topology", "bars"}},
    {"", "dmabuf_rejected", {"kernel-options", "bars", "iommu", "acs"}},
    {"", "cuda_dmabuf_not_supported", {"nvidia-driver", "kernel-options", "peer-memory"}},
    {"", "cuda_pcie_mapping", {"nvidia-driver", "bars"}},
    {"", "rocm_dmabuf_not_supported", {"kernel-options", "peer-memory", "bars"}},
    {"", "export_refused", {"gaudi-driver", "kernel"}},
    {"", "memlock_limit", {"limits", "rdma-cgroup"}},
    {"", "descriptor_limit", {"limits"}},
    {"", "queue_pair_limit", {"rdma-cgroup", "limits"}},
    {"", "peer_unreachable", {"port", "gids", "mtu"}},
    {"probe", "", {"nodes", "container", "rdma-namespace", "loaded-modules", "rdma-core"}},
    {"open",
     "",
     {"nodes", "container", "rdma-namespace", "gaudi-driver", "nvidia-driver", "loaded-modules"}},
    {"allocate", "", {"gaudi-driver", "nvidia-driver", "limits"}},
    {"export", "", {"kernel-options", "gaudi-driver", "nvidia-driver", "loaded-modules", "bars"}},
    {"register",
     "",
     {"limits", "rdma-cgroup", "kernel-options", "nic-imports", "peer-memory", "iommu"}},
    {"connect", "", {"port", "gids", "mtu", "rdma-cgroup", "limits"}},
    {"write", "", {"port", "iommu", "acs", "ats"}},
    {"read", "", {"port", "iommu", "acs", "ats"}},
    {"complete", "", {"iommu", "acs", "ats", "port", "gids", "mtu", "payload"}},
    {"verify", "", {"iommu", "acs", "ats", "scatter-to-cqe", "fork", "payload"}},
    {kSlowStep, "", {"link", "port", "topology", "acs", "iommu", "payload", "mtu", "numa"}},
    // A second row, since the first one is full.
    {kSlowStep, "", {"ats", "congestion", "cpu", "bars", "peer-memory"}},
};

/// Whether a text contains a name as a whole word: "emu1 port 1" contains "emu1", but "emu10" does
/// not.
bool has_word(std::string_view text, std::string_view word) {
  if (word.empty()) return false;
  const auto is_part = [&](std::size_t at) {
    return at < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[at])) != 0 || text[at] == '_');
  };
  for (std::size_t at = text.find(word); at != std::string_view::npos;
       at = text.find(word, at + 1)) {
    if ((at == 0 || !is_part(at - 1)) && !is_part(at + word.size())) return true;
  }
  return false;
}

std::string_view device_of(std::string_view nic) { return nic.substr(0, nic.find(':')); }

bool names_end_of(std::string_view subject, const Pair& pair) {
  return has_word(subject, device_of(pair.by)) || has_word(subject, pair.by_address) ||
         has_word(subject, pair.device_address);
}

/// A finding that names a NIC or a device concerns only its pairs. Any other finding, of a bridge
/// or of the whole machine, may concern each pair.
bool is_about(const Finding& finding, const Pair& pair, const Pairs& all) {
  if (names_end_of(finding.subject, pair)) return true;
  return std::ranges::none_of(
      all.pairs, [&](const Pair& other) { return names_end_of(finding.subject, other); });
}

constexpr std::string_view kNicImports = "nic-imports";

// Faults that appear only between two machines, or only in programs that do more than the doctor.
constexpr std::array<std::string_view, 4> kNotTried{"fork", "rdma-cm", "gids", "mtu"};

/// Whether the finding blames a device that works well with another NIC.
bool works_elsewhere(const Finding& finding, const Pairs& pairs) {
  return std::ranges::any_of(pairs.pairs, [&](const Pair& pair) {
    return has_word(finding.subject, pair.device_address) && pair.outcome < PairOutcome::slow;
  });
}

bool has(std::span<const std::string_view> checks, std::string_view check) {
  return std::ranges::find(checks, check) != checks.end();
}

/// A hint about something that a check examines.
struct HintSubject {
  std::string_view hint;
  std::string_view check;
  std::string_view subject;
};

constexpr HintSubject kHintSubjects[] = {
    {"memlock_limit", "limits", "locked memory"},
    {"descriptor_limit", "limits", "open files"},
};

/// Whether finding and hint are not about different things.
bool fits_hint(const Finding& finding, std::string_view hint) {
  return std::ranges::none_of(kHintSubjects, [&](const HintSubject& each) {
    return each.hint == hint && each.check == finding.check && each.subject != finding.subject;
  });
}

bool may_explain(const Finding& finding, const PairError& error) {
  return has(checks_of(error.step, error.hint), finding.check) && fits_hint(finding, error.hint);
}

/// Whether the failure's hint is about something that the check examines.
bool is_named(const PairError& error, std::string_view check) {
  return has(checks_of({}, error.hint), check);
}

class Ranking {
 public:
  Ranking(const Pairs& pairs, std::span<const Finding> findings)
      : pairs_(pairs), findings_(findings), used_(findings.size()) {}

  std::vector<Cause> run() {
    if (pairs_.no_look) causes_.emplace_back().error = pairs_.no_look;
    const auto groups = groups_of(pairs_);
    for (const Group& group : groups) {
      add_findings_of(group);
      Cause& effect = causes_.emplace_back();
      effect.error = group.error;
      effect.slow = group.slow;
      for (const Pair* pair : group.pairs) effect.pairs.push_back(name_of(*pair));
    }
    for (const Verdict verdict : {Verdict::bad, Verdict::slow}) {
      for (std::size_t i = 0; i < findings_.size(); ++i) {
        if (findings_[i].verdict == verdict && !used_[i]) add(i, {}, verdict == Verdict::slow);
      }
    }
    // Faults that explain no pair come after failures of pairs, and before slow pairs.
    std::ranges::stable_sort(
        causes_, {}, [](const Cause& cause) { return std::pair(cause.refuted, cause.slow); });
    return std::move(causes_);
  }

 private:
  void add(std::size_t index, std::vector<std::string> names, bool slow) {
    used_[index] = true;
    Cause& cause = causes_.emplace_back();
    cause.finding = findings_[index];
    cause.pairs = std::move(names);
    cause.slow = slow;
    cause.refuted = cause.pairs.empty() && is_refuted(findings_[index], pairs_);
  }

  void add_findings_of(const Group& group) {
    for (const std::string_view check : checks_of(group.error.step, group.error.hint)) {
      for (std::size_t i = 0; i < findings_.size(); ++i) {
        const Finding& finding = findings_[i];
        // A finding of mere slowness explains no failure, unless the failure names its subject,
        // such as one of several ports that is down.
        const bool explains =
            finding.verdict == Verdict::bad ||
            (finding.verdict == Verdict::slow && (group.slow || is_named(group.error, check)));
        if (used_[i] || !explains || finding.check != check) continue;
        if (!fits_hint(finding, group.error.hint)) continue;
        if (works_elsewhere(finding, pairs_)) continue;
        std::vector<std::string> names;
        for (const Pair* pair : group.pairs) {
          if (is_about(finding, *pair, pairs_)) names.push_back(name_of(*pair));
        }
        if (!names.empty()) add(i, std::move(names), group.slow);
      }
    }
  }

  const Pairs& pairs_;
  std::span<const Finding> findings_;
  std::vector<bool> used_;
  std::vector<Cause> causes_;
};

}  // namespace

std::string name_of(const Pair& pair) {
  return pair.name.empty() ? fmt::format("{} - {}", pair.memory, pair.by) : pair.name;
}

std::vector<std::string_view> checks_of(std::string_view step, std::string_view hint) {
  std::vector<std::string_view> checks;
  for (const Row& row : kRows) {
    if ((!row.step.empty() && row.step != step) || (!row.hint.empty() && row.hint != hint))
      continue;
    for (const std::string_view check : row.checks) {
      if (!check.empty() && std::ranges::find(checks, check) == checks.end())
        checks.push_back(check);
    }
  }
  return checks;
}

std::vector<std::string_view> ranked_checks() {
  std::vector<std::string_view> checks;
  for (const Row& row : kRows) {
    for (const std::string_view check : row.checks) {
      if (!check.empty() && std::ranges::find(checks, check) == checks.end())
        checks.push_back(check);
    }
  }
  return checks;
}

bool is_refuted(const Finding& finding, const Pairs& pairs) {
  if (finding.verdict != Verdict::bad) return false;
  const bool is_tried = has(ranked_checks(), finding.check) && !has(kNotTried, finding.check);
  if (!is_tried && !pairs.emulated) return false;
  if (works_elsewhere(finding, pairs)) return true;
  // A success with host memory proves nothing about device memory.
  const bool of_devices = finding.check == kNicImports;
  // Whether a pair disproves the fault. On emulated hardware each pair does.
  bool any = pairs.emulated && !of_devices && !pairs.pairs.empty();
  for (const Pair& pair : pairs.pairs) {
    if (!is_about(finding, pair, pairs) || (of_devices && pair.device_address.empty())) continue;
    const bool works = pair.works() || pair.outcome == PairOutcome::staged;
    // A pair that fails for another reason proves nothing about this finding.
    const bool by_it = !pair.error || may_explain(finding, *pair.error);
    if (!works && pair.outcome != PairOutcome::untried && by_it) return false;
    any = any || works;
  }
  return any;
}

std::vector<Cause> rank(const Pairs& pairs, std::span<const Finding> findings) {
  return Ranking(pairs, findings).run();
}

}  // namespace hbmwire::tools::doctor
