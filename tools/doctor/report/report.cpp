// SPDX-License-Identifier: MIT
#include "tools/doctor/report/report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>

#include "hbmwire/version.hpp"

#include "tools/common/lines.hpp"
#include "tools/doctor/checks/reading.hpp"
#include "tools/doctor/report/matrix.hpp"
#include "tools/wire/messages.hpp"

namespace hbmwire::tools::doctor {
namespace {

constexpr std::size_t kPairsNamed = 4;     // pairs named for a cause
constexpr std::size_t kSubjectsNamed = 3;  // devices named for a fault that many have

/// The error, with its text, if the library failed to list the hardware. A saved machine that
/// merely lacks the call is no failure.
std::optional<PairError> failed_look(const Told& info) {
  std::string text = text_at(info.failure, "text");
  if (text.empty()) return std::nullopt;
  std::string hint = text_at(info.failure, "hint");
  return PairError{.step = info.error == EINVAL ? "configure" : "probe",
                   .code = "failed",
                   .hint = hint.empty() ? "none" : std::move(hint),
                   .text = std::move(text)};
}

std::optional<Json> value_of(Evidence& machine, const char* call) {
  const Json answer = machine.call(call);
  if (!answer.is_object()) return std::nullopt;
  const auto found = answer.find("value");
  if (found == answer.end()) return std::nullopt;
  return *found;
}

std::string pairs_text(const std::vector<std::string>& names) {
  const std::size_t shown = std::min(names.size(), kPairsNamed);
  std::string text = fmt::format(
      "{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (names.size() > shown) text += fmt::format(", and {} more", names.size() - shown);
  return text;
}

std::string finding_text(const Finding& finding) {
  std::string text = fmt::format("[{}] ", finding.check);
  if (!finding.subject.empty()) text += finding.subject + ": ";
  text += finding.found;
  if (!finding.wanted.empty()) text += "; wanted: " + finding.wanted;
  if (!finding.source.empty()) text += fmt::format(" ({})", finding.source);
  return text;
}

void add_cause(std::vector<std::string>& lines, std::size_t number, const Cause& cause,
               unsigned columns) {
  constexpr std::size_t kIndent = 4;
  std::vector<std::string> own;
  add_wrapped(own, cause.finding ? finding_text(*cause.finding) : cause.error->text, kIndent,
              columns);
  if (cause.finding && !cause.finding->remedy.empty())
    add_wrapped(own, "-> " + cause.finding->remedy, kIndent, columns);
  if (!cause.pairs.empty()) {
    add_wrapped(
        own, fmt::format("{} {}", cause.finding ? "explains:" : "pairs:", pairs_text(cause.pairs)),
        kIndent, columns);
  }
  if (cause.refuted) own.emplace_back("    no pair fails because of it");
  if (cause.error && cause.error->hint != "none")
    own.push_back(fmt::format("    more: hbmwire doctor explain {}", cause.error->hint));
  own.front().replace(0, kIndent, fmt::format("{:>2}. ", number));
  lines.insert(lines.end(), own.begin(), own.end());
}

/// Whether two causes are the same fault of two devices.
bool is_same_fault(const Cause& one, const Cause& other) {
  return one.finding && other.finding && one.finding->check == other.finding->check &&
         one.finding->found == other.finding->found &&
         one.finding->remedy == other.finding->remedy && one.refuted == other.refuted;
}

/// Merges findings that differ only in the device. Their sources differ, too; the first one shows
/// where to look.
std::vector<Cause> joined(const std::vector<Cause>& causes) {
  std::vector<Cause> all;
  std::vector<std::size_t> subjects;
  for (const Cause& cause : causes) {
    if (all.empty() || !is_same_fault(all.back(), cause)) {
      all.push_back(cause);
      subjects.push_back(1);
      continue;
    }
    Cause& first = all.back();
    if (++subjects.back() <= kSubjectsNamed)
      first.finding->subject += ", " + cause.finding->subject;
    first.pairs.insert(first.pairs.end(), cause.pairs.begin(), cause.pairs.end());
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (subjects[i] > kSubjectsNamed)
      all[i].finding->subject += fmt::format(", and {} more", subjects[i] - kSubjectsNamed);
  }
  return all;
}

}  // namespace

std::vector<std::string> cause_lines(const std::vector<Cause>& causes, Health health,
                                     unsigned columns) {
  std::vector<std::string> lines;
  if (causes.empty()) return lines;
  // Findings about pairs that work are advice.
  lines.emplace_back();
  lines.emplace_back(health == Health::well ? "Advice:" : "Faults, first cause first:");
  std::size_t number = 0;
  for (const Cause& cause : joined(causes)) add_cause(lines, ++number, cause, columns);
  // Texts may come from a saved machine or another one, and must not control the terminal.
  std::ranges::transform(lines, lines.begin(), wire::printable);
  return lines;
}

namespace {

/// Adds the unknown checks, one line for each answer that they lack.
void add_unknown(std::vector<std::string>& lines, const Report& report, unsigned columns) {
  std::vector<std::pair<std::string, std::vector<std::string>>> by_answer;
  for (const Finding& finding : report.findings) {
    if (finding.verdict != Verdict::unknown) continue;
    auto found = std::ranges::find_if(
        by_answer, [&](const auto& each) { return each.first == finding.wanted; });
    if (found == by_answer.end()) found = by_answer.insert(by_answer.end(), {finding.wanted, {}});
    if (std::ranges::find(found->second, finding.check) == found->second.end())
      found->second.push_back(finding.check);
  }
  if (by_answer.empty()) return;
  lines.emplace_back();
  for (const auto& [answer, checks] : by_answer) {
    add_wrapped(lines,
                wire::printable(fmt::format("Not known: {}{}{}", fmt::join(checks, ", "),
                                            answer.empty() ? "" : "; would tell: ", answer)),
                0, columns);
  }
}

/// The text below the table; printable, as in cause_lines().
std::vector<std::string> text_below(const Report& report, unsigned columns) {
  std::vector<std::string> lines;
  if (report.pairs && report.pairs->no_nics) {
    lines.emplace_back();
    add_wrapped(lines, wire::printable("No NIC: " + report.pairs->no_nics->text), /*indent=*/0,
                columns);
  }
  append(lines, cause_lines(report.causes, report.conclusion.health, columns));
  add_unknown(lines, report, columns);
  return lines;
}

}  // namespace

Json to_json(const Finding& finding) {
  return {{"check", finding.check},
          {"subject", finding.subject},
          {"verdict", to_string(finding.verdict)},
          {"source", finding.source},
          {"found", finding.found},
          {"wanted", finding.wanted},
          {"remedy", finding.remedy}};
}

Json to_json(const Cause& cause) {
  return {{"finding", cause.finding ? to_json(*cause.finding) : Json(nullptr)},
          {"error", to_json(cause.error)},
          {"pairs", cause.pairs},
          {"slow", cause.slow},
          {"refuted", cause.refuted}};
}

Outcome<Report> make_report(Evidence& machine, bool emulated) {
  Report report;
  report.emulated = emulated;
  if (const auto pairs = value_of(machine, "pairs")) {
    HBMWIRE_TRY_ASSIGN(report.pairs, pairs_from_json(*pairs));
  }
  report.findings = run_checks(machine);
  const Told info = ask(machine, "info");
  report.machine = info.value;
  if (const auto failed = failed_look(info); failed && !report.pairs) {
    report.pairs.emplace();
    report.pairs->emulated = emulated;
    report.pairs->no_look = failed;
  }
  report.conclusion = conclude(report.pairs, report.findings, emulated, cards_seen(machine));
  // A wrong setting ends a quick look with the same exit code as a look that tries pairs.
  if (failed_look(info) && info.error == EINVAL) report.conclusion.exit_code = kExitUsage;
  report.causes = rank(report.pairs.value_or(Pairs()), report.findings);
  return report;
}

std::vector<std::string> report_lines(const Report& report, const ReportStyle& style) {
  std::vector<std::string> lines{wire::printable(report.conclusion.sentence + ".")};
  if (report.pairs) {
    const auto matrix = matrix_lines(*report.pairs, style.columns, style.coloured);
    if (!matrix.empty()) lines.emplace_back();
    append(lines, matrix);
  }
  append(lines, text_below(report, style.columns));
  return lines;
}

Json to_json(const Report& report) {
  Json findings = Json::array();
  for (const Finding& finding : report.findings) findings.push_back(to_json(finding));
  Json causes = Json::array();
  for (const Cause& cause : report.causes) causes.push_back(to_json(cause));
  return {{"version", to_string(version())},
          {"health", to_string(report.conclusion.health)},
          {"verdict", report.conclusion.sentence},
          {"pairs", report.pairs ? to_json(*report.pairs) : Json(nullptr)},
          {"causes", std::move(causes)},
          {"findings", std::move(findings)},
          {"machine", report.machine},
          {"emulated", report.emulated},
          {"exit_code", report.conclusion.exit_code}};
}

}  // namespace hbmwire::tools::doctor
