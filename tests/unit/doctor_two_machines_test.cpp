// SPDX-License-Identifier: MIT
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tools/doctor/remote/two_machines.hpp"

namespace hbmwire::tools::doctor {
namespace {

using testing::Contains;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

/// A NIC with two ports, one of which may be down. This is enough for the checks of ports.
Record machine_with(const std::string& nic, const char* state) {
  Record machine;
  machine.version = "0.1.1";
  const std::string folder = "/sys/class/infiniband/" + nic;
  const std::string port = folder + "/ports/1";
  machine.files[port + "/state"] = {.error = 0, .value = state};
  machine.files[port + "/phys_state"] = {.error = 0, .value = "5: LinkUp"};
  machine.files[port + "/link_layer"] = {.error = 0, .value = "Ethernet"};
  return machine;
}

LinkPair pair_of(const std::string& here, const std::string& there) {
  LinkPair pair{.here = {.memory = "host", .nic = here}, .there = {.memory = "host", .nic = there}};
  pair.outcome = PairOutcome::host;
  pair.out = {.by_write = 12e9, .by_read = 11e9, .judged = 11e9};
  pair.back = pair.out;
  pair.possible_bytes_per_second = 12.5e9;
  return pair;
}

TwoMachines two_machines(std::vector<LinkPair> nics) {
  TwoMachines machines{.peer = "node2"};
  machines.here.emplace(Machine{machine_with("a0", "4: ACTIVE"), {}});
  machines.there.emplace(Machine{machine_with("b0", "4: ACTIVE"), {}});
  machines.pairs.nics = std::move(nics);
  return machines;
}

PairError error_at(const char* step, const char* hint) {
  return {.step = step, .code = "not found", .hint = hint, .text = std::string(step) + ": why"};
}

Finding way_finding(const char* check, Verdict verdict) {
  return {.check = check,
          .subject = "192.0.2.1",
          .verdict = verdict,
          .source = "",
          .found = "found",
          .wanted = "",
          .remedy = ""};
}

std::vector<std::string> lines_of(const TwoReport& report) { return report_lines(report, {}); }

TEST(TwoMachines, WorkWhereAllPairsDo) {
  const TwoReport report = report_on(two_machines({pair_of("a0", "b0"), pair_of("a0", "b1")}));
  EXPECT_EQ(report.conclusion.exit_code, 0);
  const auto lines = lines_of(report);
  EXPECT_EQ(
      lines[0],
      "Works: all 2 pairs between this machine and node2 verified; neither has an accelerator.");
  EXPECT_THAT(lines, Contains(HasSubstr("11 88%")));
}

TEST(TwoMachines, CountAPairThatIsInBothTablesOnce) {
  TwoMachines machines = two_machines({pair_of("a0", "b0")});
  machines.pairs.memories = {pair_of("a0", "b0")};
  EXPECT_EQ(
      report_on(std::move(machines)).conclusion.sentence,
      "Works: the one pair between this machine and node2 verified; neither has an accelerator");
}

TEST(TwoMachines, BlameTheSideThatRefuses) {
  LinkPair pair = pair_of("a0", "b0");
  pair.outcome = PairOutcome::refused;
  pair.error = error_at("open", "no_active_port");
  pair.side = Side::there;
  pair.noticed_by = Side::there;
  TwoMachines machines = two_machines({pair});
  machines.there->facts = machine_with("b0", "1: DOWN");
  const TwoReport report = report_on(std::move(machines));
  EXPECT_EQ(report.conclusion.exit_code, 1);
  ASSERT_GE(report.causes.size(), 2U);
  ASSERT_TRUE(report.causes[0].finding);
  EXPECT_EQ(report.causes[0].finding->check, "port");
  EXPECT_THAT(report.causes[0].finding->subject, StartsWith("node2 b0"));
  ASSERT_TRUE(report.causes[1].error);
  EXPECT_EQ(report.causes[1].error->text, "node2: open: why");
  EXPECT_THAT(report.causes[1].pairs, testing::ElementsAre("here host by a0 - node2 host by b0"));
}

TEST(TwoMachines, ReportAFailureOnTheWireOnce) {
  LinkPair pair = pair_of("a0", "b0");
  pair.outcome = PairOutcome::failed;
  pair.error = error_at("complete", "peer_unreachable");
  const TwoReport report = report_on(two_machines({pair}));
  const auto errors = std::ranges::count_if(
      report.causes, [](const Cause& cause) { return cause.error.has_value(); });
  EXPECT_EQ(errors, 1);
}

TEST(TwoMachines, PutTheWayBeforeItsEffects) {
  LinkPair pair = pair_of("a0", "b0");
  pair.outcome = PairOutcome::failed;
  pair.error = error_at("complete", "peer_unreachable");
  TwoMachines machines = two_machines({pair});
  machines.way = {way_finding("way", Verdict::good), way_finding("way-mtu", Verdict::bad)};
  const TwoReport report = report_on(std::move(machines));
  ASSERT_TRUE(report.causes[0].finding);
  EXPECT_EQ(report.causes[0].finding->check, "way-mtu");
}

TEST(TwoMachines, TakeAFaultOfTheWayForAdviceWhereAllPairsWork) {
  TwoMachines machines = two_machines({pair_of("a0", "b0")});
  machines.way = {way_finding("way-mtu", Verdict::bad)};
  const TwoReport report = report_on(std::move(machines));
  EXPECT_EQ(report.conclusion.exit_code, 0);
  EXPECT_TRUE(report.causes.back().refuted);
}

TEST(TwoMachines, AnUnreachablePeerDoesNotWork) {
  TwoMachines machines{.peer = "node2", .way = {way_finding("way", Verdict::bad)}};
  const TwoReport report = report_on(std::move(machines));
  EXPECT_EQ(report.conclusion.exit_code, 1);
  EXPECT_EQ(report.conclusion.sentence, "Does not work: node2 can't be reached");
  EXPECT_EQ(report.causes.size(), 1U);
}

TEST(TwoMachines, NameTheSideWithoutNics) {
  TwoMachines machines = two_machines({});
  machines.there->no_nics = error_at("probe", "no_rdma_device");
  const TwoReport report = report_on(std::move(machines));
  EXPECT_EQ(report.conclusion.exit_code, 3);
  EXPECT_THAT(report.conclusion.sentence, EndsWith("node2 has no RDMA NIC"));
  EXPECT_THAT(lines_of(report), Contains("No NIC of node2: probe: why"));
}

TEST(TwoMachines, SlowPairsNameTheNicThatIsSlowWithAll) {
  std::vector<LinkPair> pairs{pair_of("a0", "b0"), pair_of("a0", "b1"), pair_of("a1", "b0"),
                              pair_of("a1", "b1")};
  for (LinkPair& pair : pairs) {
    if (pair.there.nic != "b1") continue;
    pair.outcome = PairOutcome::slow;
    pair.out.judged = 1e9;
  }
  const TwoReport report = report_on(two_machines(pairs));
  EXPECT_EQ(report.conclusion.exit_code, 4);
  std::vector<std::string> errors;
  for (const Cause& cause : report.causes) {
    if (cause.error) errors.push_back(cause.error->text);
  }
  EXPECT_THAT(errors, testing::ElementsAre(HasSubstr("slow: node2 host by b1")));
}

// Both machines have a NIC with this name.
TEST(TwoMachines, TellTheSameErrorOfEachSide) {
  std::vector<LinkPair> pairs;
  for (const Side side : {Side::here, Side::there}) {
    LinkPair pair = side == Side::here ? pair_of("mlx5_0", "mlx5_1") : pair_of("mlx5_1", "mlx5_0");
    pair.outcome = PairOutcome::refused;
    pair.error = error_at("open mlx5_0", "no_active_port");
    pair.side = side;
    pair.noticed_by = side;
    pairs.push_back(pair);
  }
  std::vector<std::string> errors;
  for (const Cause& cause : report_on(two_machines(pairs)).causes) {
    if (cause.error) errors.push_back(cause.error->text);
  }
  EXPECT_THAT(errors, testing::UnorderedElementsAre(StartsWith("here: open mlx5_0"),
                                                    StartsWith("node2: open mlx5_0")));
}

TEST(TwoMachines, TellWhyMemoryOfTheOtherSideIsStaged) {
  LinkPair pair = pair_of("a0", "b0");
  pair.there.memory = "gaudi 0";
  pair.outcome = PairOutcome::staged;
  pair.error = error_at("register", "path_policy");
  pair.side = Side::there;
  pair.noticed_by = Side::there;
  const TwoReport report = report_on(two_machines({pair}));
  EXPECT_EQ(report.conclusion.exit_code, 4);
  ASSERT_EQ(report.causes.size(), 1U);
  EXPECT_THAT(report.causes[0].error->text, StartsWith("node2: register"));
}

TEST(TwoMachines, AFaultOutweighsAMachineWithoutNics) {
  TwoMachines machines = two_machines({});
  machines.there->no_nics = error_at("probe", "no_rdma_device");
  machines.way = {way_finding("way-mtu", Verdict::bad)};
  EXPECT_EQ(report_on(machines).conclusion.exit_code, 1);
  machines.here->no_nics = error_at("probe", "no_rdma_device");
  EXPECT_THAT(report_on(machines).conclusion.sentence, EndsWith("neither machine has an RDMA NIC"));
}

TEST(TwoMachines, KeepThePairsThatWereTriedBeforeTheOtherWasLost) {
  TwoMachines machines = two_machines({pair_of("a0", "b0"), pair_of("a0", "b1")});
  machines.there->facts.reset();
  machines.lost = "complete node2: the peer's process has ended";
  const TwoReport report = report_on(std::move(machines));
  EXPECT_EQ(report.conclusion.exit_code, 1);
  EXPECT_THAT(report.conclusion.sentence, HasSubstr("was lost before all was tried"));
  const auto lines = lines_of(report);
  EXPECT_THAT(lines, Contains(HasSubstr("11 88%")));
  EXPECT_THAT(lines, Contains(HasSubstr("the peer's process has ended")));
}

TEST(TwoMachines, NameTheNicOfEachMemory) {
  TwoMachines machines = two_machines({pair_of("a0", "b0"), pair_of("a1", "b0")});
  LinkPair device = pair_of("a1", "b0");
  device.here.memory = "gaudi 0";
  machines.pairs.memories = {pair_of("a0", "b0"), device};
  const auto lines = lines_of(report_on(std::move(machines)));
  EXPECT_THAT(lines, Contains("here: host by a0, gaudi 0 by a1"));
  EXPECT_THAT(lines, Contains("node2: host by b0"));
}

TEST(TwoMachines, DoNotDriveTheTerminal) {
  TwoMachines machines = two_machines({pair_of("a0", "b0")});
  machines.peer = "node2\x1b[2J";
  for (const std::string& line : lines_of(report_on(std::move(machines))))
    EXPECT_THAT(line, testing::Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace hbmwire::tools::doctor
