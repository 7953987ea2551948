// SPDX-License-Identifier: MIT
#include "tools/doctor/report/ranking.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace hbmwire::tools::doctor {
namespace {

constexpr std::size_t kMostChecks = 8;

/// Which checks explain a step, a hint, or both; an empty word stands for any.
struct Row {
  std::string_view step;
  std::string_view hint;
  std::array<std::string_view, kMostChecks> checks;  // the likeliest first
};

// Hints before steps: they say more. A step alone stands for whatever failed there.
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
    {"", "peer_unreachable", {"port", "gids", "mtu", "congestion"}},
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
    {"complete", "", {"iommu", "acs", "ats", "port", "gids", "mtu", "payload", "congestion"}},
    {"verify", "", {"iommu", "acs", "ats", "scatter-to-cqe", "fork", "payload"}},
    {kSlowStep, "", {"link", "port", "topology", "acs", "iommu", "payload", "mtu", "numa"}},
    {kSlowStep, "", {"ats", "congestion", "cpu", "bars", "peer-memory"}},
};

// In the order of a buffer's life; a step that none of these is comes last.
constexpr std::array<std::string_view, 15> kSteps{
    "configure", "probe", "open", "allocate", "export", "register", "connect", "post",
    "copy",      "write", "read", "complete", "verify", "time",     kSlowStep};

std::size_t place_of_step(std::string_view step) {
  return static_cast<std::size_t>(std::ranges::find(kSteps, step) - kSteps.begin());
}

/// Pairs that ended in the same way.
struct Group {
  std::string subject = {};  // of what is slow
  PairError error = {};
  std::vector<const Pair*> pairs = {};
  bool slow = false;
};

/// Whether all that were timed of the pairs for which `same` holds are slow.
template <class Same>
bool all_slow(const Pairs& pairs, Same same) {
  return std::ranges::all_of(pairs.pairs, [&](const Pair& pair) {
    return !same(pair) || pair.outcome == PairOutcome::slow || !pair.works();
  });
}

/// The culprit of a slow pair: its NIC where that is slow with all memories, its memory where that
/// is with all NICs, or the pair alone.
std::string slow_subject(const Pair& pair, const Pairs& pairs) {
  if (all_slow(pairs, [&](const Pair& other) { return other.by == pair.by; })) return pair.by;
  if (all_slow(pairs, [&](const Pair& other) { return other.memory == pair.memory; }))
    return pair.memory;
  return name_of(pair);
}

PairError slow_error(const Pair& pair, const std::string& subject) {
  return {.step = std::string(kSlowStep),
          .code = "slow",
          .hint = "none",
          .text = fmt::format("slow: {}: {:.2f} GB/s with {}, {:.2g} % of the {:.2f} GB/s that are "
                              "possible ({})",
                              subject, pair.bytes_per_second() / 1e9,
                              subject == pair.by ? pair.memory : pair.by, pair.share() * 100,
                              pair.possible_bytes_per_second / 1e9, pair.limit)};
}

/// Those that are slow for one reason are told of by their slowest one.
Group& slow_group(std::vector<Group>& groups, const Pair& pair, const Pairs& pairs) {
  const std::string subject = slow_subject(pair, pairs);
  auto found =
      std::ranges::find_if(groups, [&](const Group& group) { return group.subject == subject; });
  if (found == groups.end()) {
    found = groups.insert(groups.end(), Group{.subject = subject, .slow = true});
    found->error = slow_error(pair, subject);
  } else if (pair.share() < found->pairs.front()->share()) {
    found->error = slow_error(pair, subject);
  }
  return *found;
}

Group& failed_group(std::vector<Group>& groups, const Pair& pair) {
  const bool staged = pair.outcome == PairOutcome::staged;
  const auto same = [&](const Group& group) {
    return group.error == *pair.error && group.slow == staged;
  };
  const auto found = std::ranges::find_if(groups, same);
  if (found != groups.end()) return *found;
  return groups.emplace_back(Group{.error = *pair.error, .slow = staged});
}

std::vector<Group> groups_of(const Pairs& pairs) {
  std::vector<Group> groups;
  for (const Pair& pair : pairs.pairs) {
    const bool slow = pair.outcome == PairOutcome::slow;
    if (!slow && !pair.error) continue;
    Group& group = slow ? slow_group(groups, pair, pairs) : failed_group(groups, pair);
    // The slowest one first.
    const bool first = slow && !group.pairs.empty() && pair.share() < group.pairs.front()->share();
    group.pairs.insert(first ? group.pairs.begin() : group.pairs.end(), &pair);
  }
  const auto place = [](const Group& group) {
    return std::pair(group.slow, place_of_step(group.error.step));
  };
  std::ranges::stable_sort(groups, {}, place);
  return groups;
}

/// Whether a text has a name as a word of its own: "emu1 port 1" has "emu1", "emu10" has not.
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

/// A finding that names a NIC or a device is about the pairs of that; any other, of a bridge or of
/// the whole machine, may be about each.
bool is_about(const Finding& finding, const Pair& pair, const Pairs& all) {
  if (names_end_of(finding.subject, pair)) return true;
  return std::ranges::none_of(
      all.pairs, [&](const Pair& other) { return names_end_of(finding.subject, other); });
}

// Faults that show between two machines only, or in programs that do what the doctor does not.
constexpr std::array<std::string_view, 4> kNotTried{"fork", "rdma-cm", "gids", "mtu"};

/// Whether it blames a device that works well with some NIC.
bool works_elsewhere(const Finding& finding, const Pairs& pairs) {
  return std::ranges::any_of(pairs.pairs, [&](const Pair& pair) {
    return has_word(finding.subject, pair.device_address) && pair.outcome < PairOutcome::slow;
  });
}

bool has(std::span<const std::string_view> checks, std::string_view check) {
  return std::ranges::find(checks, check) != checks.end();
}

bool may_explain(std::string_view check, const Pair& pair) {
  return !pair.error || has(checks_of(pair.error->step, pair.error->hint), check);
}

/// Whether the failure's hint is about what the check looks at.
bool is_named(const PairError& error, std::string_view check) {
  return has(checks_of({}, error.hint), check);
}

class Ranking {
 public:
  Ranking(const Pairs& pairs, std::span<const Finding> findings)
      : pairs_(pairs), findings_(findings), used_(findings.size()) {}

  std::vector<Cause> run() {
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
    // Those that explain nothing come behind what fails, and before what is slow.
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
        // A finding that only costs the machine speed makes nothing fail, unless it is what the
        // failure names: one of several ports that is down.
        const bool explains =
            finding.verdict == Verdict::bad ||
            (finding.verdict == Verdict::slow && (group.slow || is_named(group.error, check)));
        if (used_[i] || !explains || finding.check != check) continue;
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
  bool any = pairs.emulated && !pairs.pairs.empty();
  for (const Pair& pair : pairs.pairs) {
    if (!is_about(finding, pair, pairs)) continue;
    const bool works = pair.works() || pair.outcome == PairOutcome::staged;
    // A pair that fails for another reason tells nothing of this one.
    if (!works && pair.outcome != PairOutcome::untried && may_explain(finding.check, pair))
      return false;
    any = any || works;
  }
  return any;
}

std::vector<Cause> rank(const Pairs& pairs, std::span<const Finding> findings) {
  return Ranking(pairs, findings).run();
}

}  // namespace hbmwire::tools::doctor
