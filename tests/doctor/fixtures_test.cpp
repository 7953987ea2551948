// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/doctor/fixture_machine.hpp"
#include "tools/doctor/checks/finding.hpp"

namespace hbmwire::tools::doctor {
namespace {

// Judges each machine only once, because the cases look at different aspects of the same findings.
const std::vector<Finding>& findings_of(const std::string& fixture) {
  static std::map<std::string, std::vector<Finding>> known;
  const auto [entry, is_new] = known.try_emplace(fixture);
  if (!is_new) return entry->second;
  const auto machine = fixture_machine(fixture);
  for (const Check& check : all_checks()) {
    for (Finding& finding : check.run(*machine)) {
      EXPECT_EQ(finding.check, check.name);
      entry->second.push_back(std::move(finding));
    }
  }
  return entry->second;
}

std::string words(const Finding& finding) {
  return finding.check + " [" + finding.subject + "] " + std::string(to_string(finding.verdict)) +
         ": " + finding.found;
}

bool is_expected(const Finding& finding, const SortedJson& expected) {
  return expected.at("check") == finding.check && expected.at("subject") == finding.subject &&
         expected.at("verdict") == to_string(finding.verdict) &&
         finding.found.find(expected.at("found").get<std::string>()) != std::string::npos;
}

class DoctorFixture : public testing::TestWithParam<std::string> {};

TEST_P(DoctorFixture, GivesTheFindingsThatItExpects) {
  const SortedJson expected = fixture_file(GetParam(), "expected.json");
  const auto& findings = findings_of(GetParam());
  const SortedJson& wanted = expected.at("not_good");
  for (const Finding& finding : findings) {
    if (finding.verdict == Verdict::good) continue;
    EXPECT_TRUE(std::ranges::any_of(
        wanted, [&](const SortedJson& one) { return is_expected(finding, one); }))
        << "not expected: " << words(finding);
  }
  for (const SortedJson& one : wanted) {
    EXPECT_TRUE(std::ranges::any_of(
        findings, [&](const Finding& finding) { return is_expected(finding, one); }))
        << "missing: " << one;
  }
}

// A check is good if it found something to judge and all of that is good.
TEST_P(DoctorFixture, HasTheGoodChecksThatItExpects) {
  const SortedJson expected = fixture_file(GetParam(), "expected.json");
  std::map<std::string, bool> good;
  for (const Finding& finding : findings_of(GetParam())) {
    const bool is_good = finding.verdict == Verdict::good;
    good[finding.check] = good.contains(finding.check) ? good[finding.check] && is_good : is_good;
  }
  for (const SortedJson& check : expected.at("good"))
    EXPECT_TRUE(good[check.get<std::string>()]) << check;
}

TEST_P(DoctorFixture, GivesSourceAndRemedyOfEachFinding) {
  for (const Finding& finding : findings_of(GetParam())) {
    EXPECT_FALSE(finding.source.empty()) << words(finding);
    EXPECT_FALSE(finding.found.empty()) << words(finding);
    EXPECT_FALSE(finding.wanted.empty()) << words(finding);
    if (finding.verdict == Verdict::bad || finding.verdict == Verdict::slow) {
      EXPECT_FALSE(finding.remedy.empty()) << words(finding);
    }
    if (finding.verdict == Verdict::good) {
      EXPECT_EQ(finding.remedy, "") << words(finding);
    }
  }
}

std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::ranges::replace(name, '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, DoctorFixture, testing::ValuesIn(fixture_names()), test_name);

// If no fixture makes a check fail, pass, or stay unknown, a part of that check is untested.
TEST(DoctorFixtures, HaveEachCheckFailPassAndStayUnknown) {
  std::map<std::string, std::set<std::string>> seen;
  for (const std::string& fixture : fixture_names()) {
    for (const Finding& finding : findings_of(fixture)) {
      const bool fails = finding.verdict == Verdict::bad || finding.verdict == Verdict::slow;
      seen[finding.check].insert(fails ? "fails" : std::string(to_string(finding.verdict)));
    }
  }
  const std::set<std::string> all{"fails", "good", "unknown"};
  for (const Check& check : all_checks())
    EXPECT_EQ(seen[std::string(check.name)], all) << check.name;
}

TEST(DoctorFixtures, ThereAreFixturesOfManyMachines) { EXPECT_GE(fixture_names().size(), 25U); }

}  // namespace
}  // namespace hbmwire::tools::doctor
