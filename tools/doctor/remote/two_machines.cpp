// SPDX-License-Identifier: MIT
#include "tools/doctor/remote/two_machines.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "hbmwire/version.hpp"

#include "tools/common/lines.hpp"
#include "tools/doctor/checks/reading.hpp"
#include "tools/doctor/evidence/archive.hpp"
#include "tools/doctor/remote/side_by_side.hpp"
#include "tools/doctor/report/matrix.hpp"
#include "tools/wire/messages.hpp"

namespace hbmwire::tools::doctor {
namespace {

constexpr std::size_t kLongestPeer = 40;  // characters of its name in sentences

/// All pairs, without the duplicates of pairs that are in both tables.
std::vector<LinkPair> each_once(const LinkPairs& pairs) {
  std::vector<LinkPair> all = pairs.nics;
  for (const LinkPair& memory : pairs.memories) {
    const auto same = [&](const LinkPair& nic) { return is_same_pair(nic, memory); };
    if (std::ranges::none_of(pairs.nics, same)) all.push_back(memory);
  }
  return all;
}

/// The pairs as one side sees them, without those that failed because of the other side.
Pairs seen_from(const TwoReport& report, Side side) {
  Pairs seen{.emulated = report.emulated};
  for (const LinkPair& pair : each_once(report.pairs)) {
    if (pair.side.value_or(side) == side) seen.pairs.push_back(seen_from(pair, side, report.peer));
  }
  seen.nics = seen.pairs.size();
  return seen;
}

/// The pairs of the table of NICs, or of memories. Readers of the counts of NICs and accelerators
/// only ask whether they are 0.
Pairs cells_of(const std::vector<LinkPair>& pairs, bool by_nics, bool emulated) {
  Pairs cells{.emulated = emulated, .nics = pairs.size(), .accelerators = pairs.size()};
  for (const LinkPair& pair : pairs) cells.pairs.push_back(cell_of(pair, by_nics));
  return cells;
}

/// Prefixes the cause with the name of its machine.
Cause named(Cause cause, const std::string& whose) {
  if (cause.finding) {
    std::string& subject = cause.finding->subject;
    subject = subject.empty() ? whose : fmt::format("{} {}", whose, subject);
  }
  return cause;
}

bool has_error(const std::vector<Cause>& causes, const Cause& cause) {
  return cause.error &&
         std::ranges::any_of(causes, [&](const Cause& each) { return each.error == cause.error; });
}

/// Findings about the network come first, because a packet that it loses does not arrive by any
/// NIC. If all pairs work, these findings are only advice.
std::vector<Cause> causes_of(const TwoReport& report, bool all_work) {
  std::vector<Cause> causes;
  for (const Finding& finding : report.way) {
    if (finding.verdict != Verdict::bad && finding.verdict != Verdict::slow) continue;
    causes.push_back({.finding = finding,
                      .slow = finding.verdict == Verdict::slow,
                      .refuted = all_work && report.reached});
  }
  const std::vector<Cause> here = rank(seen_from(report, Side::here), report.here);
  for (const Cause& cause : here) causes.push_back(named(cause, "here"));
  for (const Cause& cause : rank(seen_from(report, Side::there), report.there)) {
    // Failures between the two machines and slow pairs are already in the list.
    const bool slow = cause.error && cause.error->code == kSlowStep;
    if (!slow && !has_error(here, cause)) causes.push_back(named(cause, report.peer));
  }
  std::ranges::stable_sort(causes, {},
                           [](const Cause& cause) { return std::pair(cause.refuted, cause.slow); });
  return causes;
}

Faults faults_of(const TwoReport& report, bool all_work) {
  Faults faults;
  for (const Side side : {Side::here, Side::there}) {
    const Pairs seen = seen_from(report, side);
    const Faults more = faults_in(side == Side::here ? report.here : report.there, &seen);
    faults.bad += more.bad;
    faults.costs += more.costs;
  }
  const auto is_bad = [](const Finding& finding) { return finding.verdict == Verdict::bad; };
  if (!all_work) faults.bad += static_cast<std::size_t>(std::ranges::count_if(report.way, is_bad));
  return faults;
}

/// The reason why pairs are missing; empty if none is.
std::string why_no_pairs(const TwoReport& report) {
  if (!report.lost.empty())
    return fmt::format("the doctor of {} was lost before all was tried", report.peer);
  if (report.no_nics_here && report.no_nics_there) return "neither machine has an RDMA NIC";
  if (report.no_nics_here) return "this machine has no RDMA NIC";
  if (report.no_nics_there) return report.peer + " has no RDMA NIC";
  return {};
}

/// Says that bytes came only from host memory, or went only there; empty if both machines have
/// accelerators.
std::string why_no_devices(const TwoReport& report) {
  const auto lacks = [&](LinkEnd LinkPair::*end) {
    return std::ranges::all_of(report.pairs.memories,
                               [&](const LinkPair& pair) { return (pair.*end).memory == "host"; });
  };
  const bool here = lacks(&LinkPair::here);
  const bool there = lacks(&LinkPair::there);
  if (here && there) return "; neither has an accelerator";
  if (here) return "; this machine has no accelerator";
  return there ? fmt::format("; {} has no accelerator", report.peer) : std::string();
}

/// The NICs in the table of memories: "here: host by mlx5_0, gaudi 0 by mlx5_1".
std::string nearest_nics(const LinkPairs& pairs, LinkEnd LinkPair::*end, const std::string& whose) {
  std::vector<std::string> names;
  for (const LinkPair& pair : pairs.memories) {
    const LinkEnd& at = pair.*end;
    std::string name = fmt::format("{} by {}", at.memory, at.nic);
    if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
  }
  return fmt::format("{}: {}", whose, fmt::join(names, ", "));
}

Conclusion conclude(const TwoReport& report, const Pairs& all, bool all_work) {
  const std::string where = report.emulated ? " (emulated hardware)" : "";
  if (!report.reached) {
    return {Health::broken, fmt::format("Does not work{}: {} can't be reached", where, report.peer),
            kExitFailed};
  }
  const Faults faults = faults_of(report, all_work);
  if (const std::string why = why_no_pairs(report); !why.empty()) {
    if (faults.bad == 0 && report.lost.empty()) {
      return {Health::untried, fmt::format("Nothing to try{}: {}", where, why), kExitUnavailable};
    }
    return {Health::broken, fmt::format("Does not work{}: {}", where, why), kExitFailed};
  }
  Conclusion conclusion = conclude(&all, faults, report.emulated,
                                   fmt::format("pairs between this machine and {}", report.peer));
  if (conclusion.health == Health::well) conclusion.sentence += why_no_devices(report);
  return conclusion;
}

void add_paragraph(std::vector<std::string>& lines, const std::string& text,
                   const ReportStyle& style) {
  lines.emplace_back();
  add_wrapped(lines, wire::printable(text), /*indent=*/0, style.columns);
}

void add_table(std::vector<std::string>& lines, const std::string& title, const Pairs& cells,
               const ReportStyle& style) {
  if (cells.pairs.empty()) return;
  add_paragraph(lines, title, style);
  append(lines, table_lines(cells, style.columns, style.coloured));
}

std::optional<Json> info_of(Evidence& machine) {
  const Told told = ask(machine, "info");
  return told.error == 0 ? std::optional(told.value) : std::nullopt;
}

Json pairs_json(const std::vector<LinkPair>& pairs) {
  Json list = Json::array();
  for (const LinkPair& pair : pairs) list.push_back(to_json(pair));
  return list;
}

void add_facts(Machine& here, Machine& there, TwoReport& report) {
  report.no_nics_here = here.no_nics;
  report.no_nics_there = there.no_nics;
  Archive ours(here.facts.value_or(Record()));
  Archive theirs(there.facts.value_or(Record()));
  report.emulated = ours.record().emulated || theirs.record().emulated;
  if (here.facts) report.here = run_checks(ours);
  if (there.facts) report.there = run_checks(theirs);
  report.machine_here = info_of(ours).value_or(Json(nullptr));
  report.machine_there = info_of(theirs).value_or(Json(nullptr));
  if (!here.facts || !there.facts) return;
  report.differences =
      differences(ours, theirs, {.here = ours.record().version, .there = theirs.record().version});
}

template <class T>
Json list_json(const std::vector<T>& all) {
  Json list = Json::array();
  for (const T& each : all) list.push_back(to_json(each));
  return list;
}

}  // namespace

TwoReport report_on(TwoMachines machines) {
  TwoReport report{.peer = shown(machines.peer, kLongestPeer),
                   .reached = machines.here && machines.there,
                   .way = std::move(machines.way),
                   .pairs = std::move(machines.pairs),
                   .lost = std::move(machines.lost)};
  report.emulated = is_emulated();
  if (report.reached) add_facts(*machines.here, *machines.there, report);
  const Pairs all = cells_of(each_once(report.pairs), /*by_nics=*/true, report.emulated);
  const bool all_work = !all.pairs.empty() && std::ranges::all_of(all.pairs, &Pair::works);
  report.conclusion = conclude(report, all, all_work);
  report.causes = causes_of(report, all_work);
  return report;
}

std::vector<std::string> report_lines(const TwoReport& report, const ReportStyle& style) {
  std::vector<std::string> lines{report.conclusion.sentence + "."};
  const std::string& peer = report.peer;
  if (report.pairs.nics.size() > 1) {
    add_table(lines, fmt::format("NICs here, and of {} (columns), with host memory:", peer),
              cells_of(report.pairs.nics, /*by_nics=*/true, report.emulated), style);
  }
  add_table(lines, fmt::format("Memories here, and of {} (columns), by the nearest NICs:", peer),
            cells_of(report.pairs.memories, /*by_nics=*/false, report.emulated), style);
  if (!report.pairs.memories.empty()) {
    add_wrapped(lines, nearest_nics(report.pairs, &LinkPair::here, "here"), /*indent=*/0,
                style.columns);
    add_wrapped(lines, nearest_nics(report.pairs, &LinkPair::there, peer), /*indent=*/0,
                style.columns);
  }
  if (!report.pairs.nics.empty()) {
    lines.emplace_back();
    append(lines, legend_lines(cells_of(each_once(report.pairs), true, report.emulated)));
  }
  if (!report.lost.empty()) add_paragraph(lines, report.lost, style);
  if (report.no_nics_here) add_paragraph(lines, "No NIC here: " + report.no_nics_here->text, style);
  if (report.no_nics_there) {
    add_paragraph(lines, fmt::format("No NIC of {}: {}", peer, report.no_nics_there->text), style);
  }
  append(lines, cause_lines(report.causes, report.conclusion.health, style.columns));
  append(lines, difference_lines(report.differences, style));
  if (report.here.empty() || report.there.empty()) return lines;
  const auto checks = side_by_side_lines(side_by_side(report.here, report.there), peer, style);
  if (!checks.empty()) lines.emplace_back();
  append(lines, checks);
  return lines;
}

Json to_json(const TwoReport& report) {
  return {{"version", to_string(version())},
          {"health", to_string(report.conclusion.health)},
          {"verdict", report.conclusion.sentence},
          {"peer", report.peer},
          {"way", list_json(report.way)},
          {"pairs",
           {{"nics", pairs_json(report.pairs.nics)},
            {"memories", pairs_json(report.pairs.memories)},
            {"no_nics_here", to_json(report.no_nics_here)},
            {"no_nics_there", to_json(report.no_nics_there)}}},
          {"lost", report.lost.empty() ? Json(nullptr) : Json(report.lost)},
          {"causes", list_json(report.causes)},
          {"differences", to_json(report.differences)},
          {"checks", to_json(side_by_side(report.here, report.there))},
          {"here", {{"findings", list_json(report.here)}, {"machine", report.machine_here}}},
          {"there", {{"findings", list_json(report.there)}, {"machine", report.machine_there}}},
          {"emulated", report.emulated},
          {"exit_code", report.conclusion.exit_code}};
}

}  // namespace hbmwire::tools::doctor
