// SPDX-License-Identifier: MIT
#include "tools/doctor/report/verdict.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tools/doctor/report/ranking.hpp"

namespace hbmwire::tools::doctor {
namespace {

struct Counts {
  std::size_t pairs = 0;
  std::size_t broken = 0;
  std::size_t slow = 0;
  std::size_t staged = 0;
  std::size_t untried = 0;
  Faults faults;
  std::string_view kind;
};

Counts counts_of(const Pairs* pairs, const Faults& faults, std::string_view kind) {
  Counts counts{.faults = faults, .kind = kind};
  if (pairs != nullptr) {
    const auto count = [&](PairOutcome outcome) {
      return static_cast<std::size_t>(std::ranges::count(pairs->pairs, outcome, &Pair::outcome));
    };
    counts.pairs = pairs->pairs.size();
    counts.broken = count(PairOutcome::refused) + count(PairOutcome::failed);
    counts.slow = count(PairOutcome::slow);
    counts.staged = count(PairOutcome::staged);
    counts.untried = count(PairOutcome::untried);
  }
  return counts;
}

std::string number_of(std::size_t count, std::string_view thing) {
  return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

/// Returns "2 of 6 pairs of memory and NIC".
std::string pairs_text(const Pairs& pairs, std::size_t some, std::string_view kind) {
  const std::string_view all = pairs.nics != 0 ? kind : "ways to move bytes";
  if (pairs.pairs.size() == 1) {
    // "the one pair of ...": removes the s of the plural.
    const std::size_t end = std::min(all.find('s'), all.size() - 1);
    return fmt::format("the one {}{}", all.substr(0, end), all.substr(end + 1));
  }
  return some == pairs.pairs.size() ? fmt::format("all {} {}", some, all)
                                    : fmt::format("{} of {} {}", some, pairs.pairs.size(), all);
}

Health health_of(const Pairs* pairs, const Counts& counts) {
  if (counts.broken != 0 || counts.faults.bad != 0) return Health::broken;
  // Without hardware, settings that only cost speed do not count.
  if (pairs == nullptr && counts.faults.no_hardware) return Health::untried;
  if (pairs == nullptr) return counts.faults.costs != 0 ? Health::slow : Health::well;
  if (pairs->no_look) return Health::broken;
  if (counts.slow != 0 || counts.staged != 0) return Health::slow;
  const bool nothing = pairs->nics == 0 && pairs->accelerators == 0;
  return counts.untried != 0 || nothing ? Health::untried : Health::well;
}

std::string broken_text(const Pairs* pairs, const Counts& counts, const std::string& where) {
  const std::string faults = number_of(counts.faults.bad, "fault");
  if (pairs != nullptr && pairs->no_look)
    return fmt::format("Does not work{}: NICs and accelerators can't be looked for", where);
  if (counts.broken == 0) {
    return pairs == nullptr
               ? fmt::format("Does not work{}: the checks found {}", where, faults)
               : fmt::format("Not well{}: no pair fails, and the checks found {}", where, faults);
  }
  return fmt::format("Does not work{}: {} fail{}{}", where,
                     pairs_text(*pairs, counts.broken, counts.kind), counts.broken == 1 ? "s" : "",
                     counts.faults.bad != 0 ? ", and the checks found " + faults : "");
}

std::string slow_text(const Pairs* pairs, const Counts& counts, const std::string& where) {
  if (pairs == nullptr) {
    return fmt::format("Works slowly{}: the checks found {} that {} speed", where,
                       number_of(counts.faults.costs, "setting"),
                       counts.faults.costs == 1 ? "costs" : "cost");
  }
  std::string text = fmt::format("Works slowly{}: ", where);
  if (counts.staged != 0)
    text += fmt::format("{} would be staged through host memory",
                        pairs_text(*pairs, counts.staged, counts.kind));
  if (counts.slow == 0) return text;
  if (counts.staged != 0) text += fmt::format(", and {} more", counts.slow);
  if (counts.staged == 0) text += pairs_text(*pairs, counts.slow, counts.kind);
  return text + fmt::format(" reach{} less than {:.0f} % of what is possible",
                            counts.slow == 1 ? "es" : "", slow_share(pairs->emulated) * 100);
}

std::string untried_text(const Pairs* tried, const Counts& counts, const std::string& where) {
  const bool nothing = tried == nullptr || (tried->nics == 0 && tried->accelerators == 0);
  if (nothing && counts.faults.nics_hidden) {
    return fmt::format(
        "Nothing to try{}: no accelerator is seen, and whether there is an RDMA NIC can't be",
        where);
  }
  if (nothing) {
    return fmt::format("Nothing to try{}: this machine has neither an RDMA NIC nor an accelerator",
                       where);
  }
  const Pairs& pairs = *tried;
  return counts.pairs == counts.untried
             ? fmt::format("Not known{}: {} could not be tried", where,
                           pairs_text(pairs, counts.untried, counts.kind))
             : fmt::format(
                   "Works as far as it was tried{}: {} could not be tried, the "
                   "others are verified",
                   where, pairs_text(pairs, counts.untried, counts.kind));
}

std::string well_text(const Pairs* pairs, const Counts& counts, const std::string& where) {
  if (pairs == nullptr) {
    return counts.faults.none_judged
               ? fmt::format("Not known{}: no check applies to this machine", where)
               : fmt::format("No fault found{}: nothing was transferred to prove it", where);
  }
  return fmt::format("Works{}: {} verified{}", where,
                     pairs_text(*pairs, pairs->pairs.size(), counts.kind),
                     pairs->nics == 0           ? ", without an RDMA NIC"
                     : pairs->accelerators == 0 ? "; there is no accelerator"
                                                : "");
}

}  // namespace

std::string_view to_string(Health health) noexcept {
  switch (health) {
    case Health::well:
      return "well";
    case Health::broken:
      return "broken";
    case Health::slow:
      return "slow";
    case Health::untried:
      break;
  }
  return "untried";
}

bool is_absence(const Finding& finding) {
  // If a NIC is on PCI but the kernel does not show it, the finding names the NIC.
  return finding.check == "nics" && finding.verdict == Verdict::bad && finding.subject.empty();
}

Faults faults_in(std::span<const Finding> findings, const Pairs* pairs) {
  Faults faults{.none_judged = findings.empty()};
  for (const Finding& each : findings) {
    const bool counts = !is_absence(each) && (pairs == nullptr || !is_refuted(each, *pairs));
    if (each.verdict == Verdict::bad && counts) ++faults.bad;
    if (each.verdict == Verdict::slow) ++faults.costs;
    if (each.check == "nics" && each.verdict == Verdict::unknown) faults.nics_hidden = true;
  }
  return faults;
}

Conclusion conclude(const Pairs* pairs, const Faults& faults, bool emulated,
                    std::string_view kind) {
  const Counts counts = counts_of(pairs, faults, kind);
  const std::string where = emulated ? " (emulated hardware)" : "";
  switch (health_of(pairs, counts)) {
    case Health::broken:
      return {Health::broken, broken_text(pairs, counts, where), kExitFailed};
    case Health::slow:
      return {Health::slow, slow_text(pairs, counts, where), kExitSlow};
    case Health::untried:
      return {Health::untried, untried_text(pairs, counts, where), kExitUnavailable};
    case Health::well:
      break;
  }
  return {Health::well, well_text(pairs, counts, where), kExitOk};
}

Conclusion conclude(const std::optional<Pairs>& pairs, std::span<const Finding> findings,
                    bool emulated, std::size_t cards) {
  const Pairs* const tried = pairs ? &*pairs : nullptr;
  Faults faults = faults_in(findings, tried);
  faults.no_hardware = cards == 0 && std::ranges::any_of(findings, is_absence);
  return conclude(tried, faults, emulated);
}

}  // namespace hbmwire::tools::doctor
