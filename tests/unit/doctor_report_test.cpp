// SPDX-License-Identifier: MIT
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "tests/unit/doctor_pairs.hpp"
#include "tools/doctor/report/matrix.hpp"
#include "tools/doctor/report/report.hpp"
#include "tools/doctor/report/verdict.hpp"

namespace hbmwire::tools::doctor {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::StartsWith;

const PairError kBusy{"open", "busy", "gaudi_busy", "open: another process owns the card"};
const PairError kRefused{"register", "not supported", "none", "register: refused"};

std::vector<Pair> eight_by_eight(const std::string& nic) {
  std::vector<Pair> pairs;
  for (int card = 0; card < 8; ++card) {
    for (int i = 0; i < 8; ++i)
      pairs.push_back(good_pair("gaudi " + std::to_string(card), nic + std::to_string(i)));
  }
  return pairs;
}

std::size_t widest(const std::vector<std::string>& lines) {
  return std::ranges::max(lines, {}, &std::string::size).size();
}

TEST(DoctorMatrix, EightCardsAndEightNicsFitEightyColumns) {
  Pairs pairs = pairs_with(eight_by_eight("mlx5_"));
  pairs.pairs[3] = slow_pair("gaudi 0", "mlx5_3", 3.1e9);
  pairs.pairs[4] = failed_pair("gaudi 0", "mlx5_4", kRefused);
  const auto lines = matrix_lines(pairs, 80, false);
  EXPECT_LE(widest(lines), 80U);
  EXPECT_THAT(lines[0], HasSubstr("mlx5_7"));
  EXPECT_THAT(lines[1], StartsWith("gaudi 0   12 92%   12 92%"));
  EXPECT_THAT(lines[1], HasSubstr("3.1 24%!  refused"));
  EXPECT_THAT(lines[8], StartsWith("gaudi 7"));
}

TEST(DoctorMatrix, NumbersNicsWhoseNamesAreTooLong) {
  const auto lines = matrix_lines(pairs_with(eight_by_eight("rocep137s0f")), 80, false);
  EXPECT_LE(widest(lines), 80U);
  EXPECT_THAT(lines[0], HasSubstr("#8"));
  EXPECT_THAT(lines, Contains("#8      rocep137s0f7"));
}

TEST(DoctorMatrix, ContinuesBelowWithMoreNicsThanFit) {
  std::vector<Pair> list;
  for (int i = 0; i < 10; ++i) list.push_back(good_pair("host", "nic" + std::to_string(i)));
  const auto lines = matrix_lines(pairs_with(list), 80, false);
  EXPECT_LE(widest(lines), 80U);
  EXPECT_EQ(std::ranges::count_if(lines,
                                  [](const std::string& line) { return line.starts_with("host"); }),
            2);
}

TEST(DoctorMatrix, SaysInACellHowAPairEnded) {
  Pair pair = good_pair("gaudi 0", "nic0");
  EXPECT_EQ(cell_text(pair), "12 92%");
  pair.read_bytes_per_second = 4e7;
  EXPECT_EQ(cell_text(pair), "0.04 0%");
  pair.read_bytes_per_second = 9.9e9;
  pair.possible_bytes_per_second = 9e9;  // measured, and exceeded by the rate
  EXPECT_EQ(cell_text(pair), "9.9 100%");
  pair.outcome = PairOutcome::peer_memory;
  EXPECT_EQ(cell_text(pair), "10 100%p");
  pair.possible_bytes_per_second = 0;
  EXPECT_EQ(cell_text(pair), "9.9p");
  pair.error = kBusy;
  pair.outcome = PairOutcome::untried;
  EXPECT_EQ(cell_text(pair), "busy");
  pair.outcome = PairOutcome::failed;
  EXPECT_EQ(cell_text(pair), "FAILED");
  pair.outcome = PairOutcome::staged;
  EXPECT_EQ(cell_text(pair), "staged");
}

TEST(DoctorMatrix, KeepsTheDigitsOfASlowPairAndItsPath) {
  Pair pair = slow_pair("gaudi 0", "rxe0", 3e7);
  pair.possible_bytes_per_second = 3e8;
  EXPECT_EQ(cell_text(pair), ".03 10%!");
  EXPECT_THAT(matrix_lines(pairs_with({pair}), 80, false), Contains("device memory: zero-copy"));
}

TEST(DoctorMatrix, HasColoursOnlyWhereTheyAreWanted) {
  const Pairs pairs = pairs_with({failed_pair("host", "nic0", kRefused)});
  EXPECT_THAT(matrix_lines(pairs, 80, true)[1], HasSubstr("\x1b[31mrefused\x1b[0m"));
  for (const std::string& line : matrix_lines(pairs, 80, false))
    EXPECT_EQ(line.find('\x1b'), std::string::npos);
}

TEST(DoctorMatrix, TellsOfNoPathWhereNothingWorks) {
  Pair failed = good_pair("gaudi 0", "nic0");
  EXPECT_THAT(matrix_lines(pairs_with({failed}), 80, false), Contains("device memory: zero-copy"));
  failed.outcome = PairOutcome::failed;
  EXPECT_THAT(matrix_lines(pairs_with({failed}), 80, false),
              testing::Not(Contains("device memory: zero-copy")));
}

TEST(DoctorMatrix, IsEmptyWithoutPairs) { EXPECT_TRUE(matrix_lines({}, 80, false).empty()); }

struct VerdictCase {
  std::vector<Pair> pairs;
  std::vector<Finding> findings;
  Health health;
  int exit_code;
};

TEST(DoctorVerdict, FollowsTheWorstThatIsKnown) {
  const Pair good = good_pair("gaudi 0", "nic0");
  Pair busy = failed_pair("gaudi 1", "nic0", kBusy);
  busy.outcome = PairOutcome::untried;
  Pair staged = failed_pair("gaudi 1", "nic0", kRefused);
  staged.outcome = PairOutcome::staged;
  const Pair refused = failed_pair("gaudi 1", "nic0", kRefused);
  const Pair slow = slow_pair("gaudi 2", "nic0", 1e9);
  const Finding bad = finding_of("fork", "", Verdict::bad);
  const Finding costs = finding_of("cpu", "", Verdict::slow);
  const Finding unknown = finding_of("acs", "", Verdict::unknown);
  const VerdictCase cases[] = {
      {{good}, {}, Health::well, 0},
      {{good}, {costs, unknown}, Health::well, 0},  // the pair was measured
      {{good, busy}, {}, Health::untried, 3},
      {{good, slow}, {}, Health::slow, 4},
      {{good, staged}, {}, Health::slow, 4},
      {{good, busy, slow}, {}, Health::slow, 4},
      {{good}, {bad}, Health::broken, 1},
      {{good, refused, slow}, {}, Health::broken, 1},
  };
  for (const VerdictCase& each : cases) {
    const auto conclusion = conclude(pairs_with(each.pairs), each.findings, false);
    EXPECT_EQ(conclusion.health, each.health) << conclusion.sentence;
    EXPECT_EQ(conclusion.exit_code, each.exit_code) << conclusion.sentence;
  }
}

TEST(DoctorVerdict, AQuickLookUsesTheChecks) {
  const auto of = [](Verdict verdict) {
    return conclude(std::nullopt, std::vector{finding_of("acs", "", verdict)}, false).exit_code;
  };
  EXPECT_EQ(of(Verdict::good), 0);
  EXPECT_EQ(of(Verdict::unknown), 0);
  EXPECT_EQ(of(Verdict::slow), 4);
  EXPECT_EQ(of(Verdict::bad), 1);
}

TEST(DoctorVerdict, SaysWhenHardwareIsEmulated) {
  Pairs pairs = pairs_with({good_pair("host", "nic0")});
  EXPECT_THAT(conclude(pairs, {}, true).sentence, HasSubstr("emulated"));
  EXPECT_THAT(conclude(std::nullopt, {}, true).sentence, HasSubstr("emulated"));
  pairs.pairs.front().outcome = PairOutcome::failed;
  EXPECT_THAT(conclude(pairs, {}, true).sentence, HasSubstr("emulated"));
  EXPECT_THAT(conclude(pairs, {}, false).sentence, testing::Not(HasSubstr("emulated")));
}

TEST(DoctorVerdict, AMachineWithoutHardwareIsUntried) {
  Pairs pairs = pairs_with({good_pair("host", "tcp")});
  pairs.nics = pairs.accelerators = 0;
  EXPECT_EQ(conclude(pairs, {}, false).exit_code, 3);
  EXPECT_THAT(conclude(pairs, {}, false).sentence, HasSubstr("neither"));
  const std::vector hidden{finding_of("nics", "", Verdict::unknown)};
  EXPECT_EQ(conclude(pairs, hidden, false).exit_code, 3);
  EXPECT_THAT(conclude(pairs, hidden, false).sentence, testing::Not(HasSubstr("neither")));
  pairs.accelerators = 1;
  EXPECT_EQ(conclude(pairs, {}, false).exit_code, 0);
}

TEST(DoctorVerdict, CountsNoAbsenceAsAFault) {
  const std::vector none{finding_of("nics", "", Verdict::bad),
                         finding_of("cpu", "", Verdict::slow)};
  Pairs pairs = pairs_with({good_pair("host", "tcp")});
  pairs.nics = pairs.accelerators = 0;
  EXPECT_EQ(conclude(pairs, none, false, 0).exit_code, 3);
  EXPECT_EQ(conclude(std::nullopt, none, false, 0).sentence, conclude(pairs, none, false).sentence);
  EXPECT_EQ(conclude(std::nullopt, none, false, 0).exit_code, 3);
  pairs.accelerators = 1;
  EXPECT_EQ(conclude(pairs, none, false, 1).exit_code, 0);
  EXPECT_EQ(conclude(std::nullopt, std::span(none).first(1), false, 1).exit_code, 0);
  // The NIC exists.
  const std::vector hidden{finding_of("nics", "0000:30:01.0", Verdict::bad)};
  EXPECT_EQ(conclude(pairs, hidden, false, 1).exit_code, 1);
  EXPECT_EQ(conclude(std::nullopt, hidden, false, 1).exit_code, 1);
}

TEST(DoctorVerdict, AMachineThatCannotBeExaminedIsBroken) {
  Pairs pairs;
  pairs.no_look = PairError{"probe", "timed out", "none", "probe: no answer"};
  EXPECT_EQ(conclude(pairs, {}, false).exit_code, 1);
}

TEST(DoctorReport, HasVerdictMatrixCausesAndUnknownChecks) {
  Report report;
  report.pairs = pairs_with({good_pair("host", "nic0"), failed_pair("gaudi 0", "nic0", kRefused)});
  Finding unknown = finding_of("acs", "0000:30:01.0", Verdict::unknown);
  unknown.wanted = "run it as root";
  Finding also = unknown;
  also.check = "payload";
  report.findings = {finding_of("limits", "", Verdict::bad), unknown, also, unknown};
  report.conclusion = conclude(report.pairs, report.findings, false);
  report.causes = rank(*report.pairs, report.findings);
  const auto lines = report_lines(report, {});
  EXPECT_EQ(lines[0],
            "Does not work: 1 of 2 pairs of memory and NIC fails, and the checks found 1 fault.");
  EXPECT_THAT(lines, Contains(" 1. [limits] 0; wanted: 1 (/sys)"));
  EXPECT_THAT(lines, Contains("    -> mend it"));
  EXPECT_THAT(lines, Contains(" 2. register: refused"));
  EXPECT_THAT(lines, Contains("Not known: acs, payload; would tell: run it as root"));
  EXPECT_LE(widest({lines.begin() + 1, lines.end()}), 80U);
  const Json json = to_json(report);
  EXPECT_EQ(json.at("exit_code"), 1);
  EXPECT_EQ(json.at("health"), "broken");
  EXPECT_EQ(json.at("causes").size(), 2U);
  EXPECT_EQ(json.at("findings").size(), 4U);
}

TEST(DoctorReport, DoesNotDriveATerminal) {
  const std::string foreign =
      "\x1b]0;x\a\r\xc2\x9b"
      "31m\xe2\x80\xae";
  Finding bad = finding_of("bars", foreign, Verdict::bad);
  bad.source = bad.found = bad.wanted = bad.remedy = foreign;
  Finding unknown = bad;
  unknown.verdict = Verdict::unknown;
  Report report;
  report.pairs = pairs_with({});
  report.pairs->no_nics = PairError{"probe", "not found", foreign, foreign};
  report.pairs->no_look = report.pairs->no_nics;
  report.findings = {bad, unknown};
  report.conclusion = conclude(report.pairs, report.findings, false);
  report.conclusion.sentence += foreign;
  report.causes = rank(*report.pairs, report.findings);
  for (const std::string& line : report_lines(report, {})) {
    EXPECT_TRUE(std::ranges::all_of(line, [](char c) { return c >= ' ' && c <= '~'; })) << line;
  }
  EXPECT_EQ(to_json(report).at("findings")[0].at("found"), foreign);
}

/// Answers only one call.
class OneCall final : public Evidence {
 public:
  OneCall(std::string name, Json answer) : name_(std::move(name)), answer_(std::move(answer)) {}

  Answer file(const std::string&) override { return {.error = EPERM, .value = {}}; }

  Names folder(const std::string&) override { return {.error = EPERM, .values = {}}; }

  Answer link(const std::string&) override { return {.error = EPERM, .value = {}}; }

  Answer real_path(const std::string&) override { return {.error = EPERM, .value = {}}; }

  Answer access(const std::string&) override { return {.error = EPERM, .value = {}}; }

  Json call(const std::string& name) override {
    return name == name_ ? answer_ : Json{{"error", ENOSYS}};
  }

 private:
  std::string name_;
  Json answer_;
};

TEST(DoctorReport, NamesAFailedLookAtTheHardwareFirst) {
  OneCall machine("info", {{"error", EINVAL},
                           {"text", "HBMWIRE_PATHS takes PATH"},
                           {"hint", "setting_choices"},
                           {"emulated", true}});
  const auto report = make_report(machine, true);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->conclusion.exit_code, 2);
  EXPECT_THAT(report->conclusion.sentence, StartsWith("Does not work (emulated hardware)"));
  ASSERT_EQ(report->causes.size(), 1U);
  EXPECT_EQ(report->causes[0].error->text, "HBMWIRE_PATHS takes PATH");
  EXPECT_THAT(report_lines(*report, {}),
              Contains("    more: hbmwire doctor explain setting_choices"));
  for (const Finding& finding : report->findings)
    EXPECT_EQ(finding.verdict, Verdict::unknown) << finding.check << ": " << finding.found;
}

TEST(DoctorReport, ALimitThatStopsTheLookEndsLikeAFailure) {
  OneCall machine("info", {{"error", EIO}, {"text", "open: Too many open files"}});
  const auto report = make_report(machine, false);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->conclusion.exit_code, 1);
  EXPECT_EQ(report->causes.at(0).error->hint, "none");
}

TEST(DoctorReport, ASavedMachineWithoutTheCallIsNoFailure) {
  OneCall machine("uname", {{"error", ENOSYS}});
  const auto report = make_report(machine, false);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->conclusion.exit_code, 0);
  EXPECT_TRUE(report->causes.empty());
}

TEST(DoctorReport, JoinsEqualFindingsOfManyDevices) {
  Report report;
  for (const char* const card : {"card0", "card1", "card2", "card3", "card4"})
    report.findings.push_back(finding_of("bars", card, Verdict::bad));
  report.conclusion = conclude(std::nullopt, report.findings, false);
  report.causes = rank({}, report.findings);
  const auto lines = report_lines(report, {});
  EXPECT_THAT(lines, Contains(" 1. [bars] card0, card1, card2, and 2 more: 0; wanted: 1 (/sys)"));
  EXPECT_EQ(to_json(report).at("causes").size(), 5U);
}

TEST(DoctorPairs, AreTheSameBehindJson) {
  Pairs pairs = pairs_with({good_pair("host", "nic0"), failed_pair("gaudi 0", "nic0", kRefused)});
  pairs.emulated = true;
  pairs.no_nics = kRefused;
  const auto again = pairs_from_json(Json::parse(to_json(pairs).dump()));
  ASSERT_TRUE(again);
  EXPECT_EQ(*again, pairs);
}

TEST(DoctorPairs, ForeignJsonIsBounded) {
  const Json good = to_json(pairs_with({good_pair("host", "nic0")}));
  for (const char* const name : {"pairs", "nics", "no_nics", "emulated"}) {
    Json lacks = good;
    lacks.erase(name);
    EXPECT_FALSE(pairs_from_json(lacks)) << name;
  }
  for (const auto& [name, unused] : good.at("pairs")[0].items()) {
    Json lacks = good;
    lacks["pairs"][0].erase(name);
    EXPECT_FALSE(pairs_from_json(lacks)) << name;
    Json other = good;
    other["pairs"][0][name] = Json::array();
    EXPECT_FALSE(pairs_from_json(other)) << name;
  }
  Json many = good;
  for (int i = 0; i < 5000; ++i) many["pairs"].push_back(good["pairs"][0]);
  EXPECT_FALSE(pairs_from_json(many));
  Json lengthy = good;
  lengthy["pairs"][0]["by"] = std::string(5000, 'x');
  EXPECT_FALSE(pairs_from_json(lengthy));
  Json negative = good;
  negative["pairs"][0]["latency_ns"] = -1;
  EXPECT_FALSE(pairs_from_json(negative));
  for (const Json& other : {Json(), Json(1), Json("x"), Json::array(), Json::object()})
    EXPECT_FALSE(pairs_from_json(other));
}

TEST(DoctorPairs, DoNotDriveATerminal) {
  Json json = to_json(pairs_with({good_pair("host", "nic0")}));
  json["pairs"][0]["by"] = "nic0\x1b[2J\n";
  const auto pairs = pairs_from_json(json);
  ASSERT_TRUE(pairs);
  EXPECT_EQ(pairs->pairs[0].by, "nic0?[2J?");
}

}  // namespace
}  // namespace hbmwire::tools::doctor
