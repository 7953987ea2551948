// SPDX-License-Identifier: MIT
#include <algorithm>
#include <optional>

#include "tools/doctor/checks/finding.hpp"
#include "tools/doctor/checks/hardware.hpp"
#include "tools/doctor/checks/reading.hpp"

namespace hbmwire::tools::doctor {
namespace {

/// Passes questions on, and notes those without an answer.
class Watched final : public Evidence {
 public:
  explicit Watched(Evidence& machine) : machine_(machine) {}

  Answer file(const std::string& path) override { return noted(path, machine_.file(path)); }

  Names folder(const std::string& path) override { return noted(path, machine_.folder(path)); }

  Answer link(const std::string& path) override { return noted(path, machine_.link(path)); }

  Answer real_path(const std::string& path) override {
    return noted(path, machine_.real_path(path));
  }

  Answer access(const std::string& path) override { return machine_.access(path); }

  Json call(const std::string& name) override { return machine_.call(name); }

  [[nodiscard]] const std::vector<Gap>& gaps() const noexcept { return gaps_; }

 private:
  /// Returns the answer, after noting it if it leaves the question open.
  template <class T>
  T noted(const std::string& path, T answer) {
    if (is_unread(answer.error))
      gaps_.push_back({.source = path, .error = answer.error, .words = error_words(answer.error)});
    return answer;
  }

  Evidence& machine_;
  std::vector<Gap> gaps_;
};

// The kind of hardware that the check concerns and that could not be seen.
std::optional<Gap> gap_for(const Concerns& concerns, const Hardware& hardware) {
  if (concerns.nics && hardware.nics_gap) return hardware.nics_gap;
  if (concerns.cards && hardware.cards_gap) return hardware.cards_gap;
  return concerns.places ? hardware.places_gap : std::nullopt;
}

// The rule's first question without an answer. Questions that hardware_of() also asks do not count.
std::optional<Gap> first_own(const std::vector<Gap>& all, const std::vector<Gap>& of_hardware) {
  for (const Gap& gap : all) {
    if (std::ranges::find(of_hardware, gap.source, &Gap::source) == of_hardware.end()) return gap;
  }
  return std::nullopt;
}

}  // namespace

std::vector<Finding> Check::run(Evidence& machine) const {
  Watched for_hardware(machine);
  const Hardware hardware = hardware_of(for_hardware);
  if (concerns.real_hardware && hardware.emulated) return {};
  Watched for_rule(machine);
  std::vector<Finding> findings = rule(for_rule);
  if (std::ranges::find(findings, Verdict::unknown, &Finding::verdict) != findings.end())
    return findings;
  std::optional<Gap> gap = gap_for(concerns, hardware);
  if (!gap && findings.empty()) gap = first_own(for_rule.gaps(), for_hardware.gaps());
  if (gap) findings.push_back(unknown_for_gap(std::string(name), *gap));
  return findings;
}

}  // namespace hbmwire::tools::doctor
