// SPDX-License-Identifier: MIT
#include "tools/doctor/remote/side_by_side.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/doctor/fixture_machine.hpp"

namespace hbmwire::tools::doctor {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Finding finding(std::string check, Verdict verdict) {
  Finding made;
  made.check = std::move(check);
  made.verdict = verdict;
  return made;
}

std::vector<Finding> all_findings(const std::string& fixture) {
  const auto machine = fixture_machine(fixture);
  std::vector<Finding> findings;
  for (const Check& check : all_checks()) {
    for (Finding& one : check.run(*machine)) findings.push_back(std::move(one));
  }
  return findings;
}

TEST(DoctorSideBySide, HasTheWorstVerdictOfEachCheck) {
  using enum Verdict;
  const std::vector<Finding> here{finding("mtu", good), finding("mtu", unknown),
                                  finding("acs", slow), finding("acs", bad), finding("acs", good)};
  const std::vector<Finding> there{finding("mtu", slow), finding("mtu", unknown)};
  const auto checks = side_by_side(here, there);
  ASSERT_EQ(checks.size(), 2U);
  EXPECT_EQ(checks[0], (CheckAtBothEnds{"acs", bad, std::nullopt}));
  EXPECT_EQ(checks[1], (CheckAtBothEnds{"mtu", unknown, slow}));
}

TEST(DoctorSideBySide, HasARowForEachCheckThatIsNotGood) {
  using enum Verdict;
  const std::vector<CheckAtBothEnds> checks{{"kernel-options", bad, good},
                                            {"mtu", good, std::nullopt},
                                            {"acs", std::nullopt, unknown},
                                            {"gids", good, good},
                                            {"port", std::nullopt, good}};
  EXPECT_THAT(
      side_by_side_lines(checks, "node2", {}),
      ElementsAre("                here     node2",  //
                  "kernel-options  bad      good",   //
                  "acs             -        unknown", "good here, nothing to judge there: mtu",
                  "good there, nothing to judge here: port", "1 check is good at both ends"));
}

TEST(DoctorSideBySide, TwoHealthyMachinesAreOneLine) {
  const auto findings = all_findings("gaudi2-pair");
  const auto lines = side_by_side_lines(side_by_side(findings, findings), "node2", {});
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_THAT(lines[0], HasSubstr(" checks are good at both ends"));
  EXPECT_THAT(side_by_side_lines({}, "node2", {}), IsEmpty());
}

TEST(DoctorSideBySide, FitsEightyColumnsWithAnyPeersName) {
  const std::vector<CheckAtBothEnds> checks{{"mtu", Verdict::slow, Verdict::good}};
  const auto lines = side_by_side_lines(checks, "\x1b[2J" + std::string(300, 'n'), {});
  EXPECT_EQ(lines[0].size(), 80U);
  EXPECT_THAT(lines[0], HasSubstr("?[2Jnnn"));
  EXPECT_TRUE(lines[0].ends_with("..."));
}

TEST(DoctorSideBySide, AnyTwoMachinesFitEightyColumns) {
  std::vector<std::vector<Finding>> machines;
  for (const std::string& fixture : fixture_names()) machines.push_back(all_findings(fixture));
  for (const auto& here : machines) {
    for (const auto& there : machines) {
      for (const std::string& line : side_by_side_lines(side_by_side(here, there), "node2", {}))
        EXPECT_LE(line.size(), 80U) << line;
    }
  }
}

TEST(DoctorSideBySide, ColoursVerdictsAndKeepsTheColumns) {
  const std::vector<CheckAtBothEnds> checks{{"mtu", Verdict::slow, Verdict::bad},
                                            {"acs", Verdict::good, Verdict::unknown}};
  const auto lines = side_by_side_lines(checks, "node2", {.columns = 80, .coloured = true});
  EXPECT_EQ(lines[1], "mtu  \x1b[33mslow\x1b[0m     \x1b[31mbad\x1b[0m");
  EXPECT_EQ(lines[2], "acs  \x1b[32mgood\x1b[0m     \x1b[33munknown\x1b[0m");
}

TEST(DoctorSideBySide, HasNullInJsonWhereACheckSaysNothing) {
  const Json json = to_json(std::vector<CheckAtBothEnds>{{"acs", Verdict::bad, std::nullopt}});
  EXPECT_EQ(json.dump(), R"([{"check":"acs","here":"bad","there":null}])");
}

}  // namespace
}  // namespace hbmwire::tools::doctor
