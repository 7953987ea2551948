// SPDX-License-Identifier: MIT
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/doctor_pairs.hpp"
#include "tools/doctor/report/ranking.hpp"

namespace hbmwire::tools::doctor {
namespace {

using testing::ElementsAre;

const PairError kNoP2p{"register", "not supported", "dmabuf_no_p2p", "register: no way"};
const PairError kPortDown{"open", "not found", "no_active_port", "open nic1: the port is down"};

/// The names of the causes: "acs", or the step for failures of pairs.
std::vector<std::string> names_of(const std::vector<Cause>& causes) {
  std::vector<std::string> names;
  for (const Cause& cause : causes)
    names.push_back(cause.finding ? cause.finding->check : cause.error->step);
  return names;
}

TEST(DoctorRanking, IsEmptyForAHealthyMachine) {
  EXPECT_TRUE(rank(pairs_with({good_pair("gaudi 0", "nic0")}),
                   std::vector{finding_of("acs", "", Verdict::good),
                               finding_of("iommu", "", Verdict::unknown)})
                  .empty());
}

TEST(DoctorRanking, PutsACauseBeforeTheFailureThatItExplains) {
  const auto causes = rank(pairs_with({failed_pair("gaudi 0", "nic0", kNoP2p)}),
                           std::vector{finding_of("port", "", Verdict::bad),
                                       finding_of("acs", "0000:30:01.0", Verdict::bad)});
  EXPECT_THAT(names_of(causes), ElementsAre("acs", "register", "port"));
  EXPECT_THAT(causes[0].pairs, ElementsAre("gaudi 0 - nic0"));
  EXPECT_THAT(causes[1].pairs, ElementsAre("gaudi 0 - nic0"));
  EXPECT_TRUE(causes[2].pairs.empty());
}

TEST(DoctorRanking, PutsTheLikeliestCauseFirst) {
  const auto causes =
      rank(pairs_with({failed_pair("gaudi 0", "nic0", kNoP2p)}),
           std::vector{finding_of("topology", "", Verdict::bad),
                       finding_of("acs", "", Verdict::bad), finding_of("iommu", "", Verdict::bad),
                       finding_of("kernel-options", "", Verdict::bad)});
  EXPECT_THAT(names_of(causes),
              ElementsAre("kernel-options", "iommu", "acs", "topology", "register"));
}

TEST(DoctorRanking, PutsTheEarlierStepFirst) {
  const auto causes = rank(pairs_with({failed_pair("gaudi 0", "nic0", kNoP2p),
                                       failed_pair("gaudi 0", "nic1", kPortDown)}),
                           std::vector{finding_of("acs", "", Verdict::bad),
                                       finding_of("port", "nic1 port 1", Verdict::bad)});
  EXPECT_THAT(names_of(causes), ElementsAre("port", "open", "acs", "register"));
}

TEST(DoctorRanking, DoesNotBlameADeviceThatWorksWithAnotherNic) {
  const auto causes =
      rank(pairs_with({slow_pair("gaudi 0", "nic0", 1e9), good_pair("gaudi 0", "nic1")}),
           std::vector{finding_of("bars", "0000:33:00.0", Verdict::bad)});
  EXPECT_THAT(names_of(causes), ElementsAre("slow", "bars"));
  EXPECT_TRUE(causes[1].refuted);
}

TEST(DoctorRanking, WorkingPairsRefuteFaults) {
  Pairs pairs = pairs_with({good_pair("gaudi 0", "nic0"), failed_pair("host", "nic1", kPortDown)});
  EXPECT_TRUE(is_refuted(finding_of("bars", "0000:33:00.0", Verdict::bad), pairs));
  // nic1 fails for another reason than the bars.
  EXPECT_TRUE(is_refuted(finding_of("bars", "", Verdict::bad), pairs));
  EXPECT_FALSE(is_refuted(finding_of("port", "", Verdict::bad), pairs));
  EXPECT_FALSE(is_refuted(finding_of("port", "nic1 port 1", Verdict::bad), pairs));
  EXPECT_FALSE(is_refuted(finding_of("gids", "nic0 port 1", Verdict::bad), pairs));
  pairs.emulated = true;
  EXPECT_TRUE(is_refuted(finding_of("gids", "nic0 port 1", Verdict::bad), pairs));
  EXPECT_FALSE(is_refuted(finding_of("acs", "", Verdict::bad), {}));
}

TEST(DoctorRanking, PutsRefutedFaultsLast) {
  const auto causes = rank(pairs_with({slow_pair("gaudi 0", "nic0", 1e9)}),
                           std::vector{finding_of("nic-imports", "nic0", Verdict::bad),
                                       finding_of("fork", "", Verdict::bad)});
  EXPECT_THAT(names_of(causes), ElementsAre("fork", "slow", "nic-imports"));
  EXPECT_TRUE(causes[2].refuted);
}

TEST(DoctorRanking, GivesEachFindingOnce) {
  const PairError other{"register", "not supported", "dmabuf_rejected", "register: rejected"};
  const auto causes = rank(
      pairs_with({failed_pair("gaudi 0", "nic0", kNoP2p), failed_pair("gaudi 0", "nic1", other)}),
      std::vector{finding_of("acs", "", Verdict::bad)});
  EXPECT_THAT(names_of(causes), ElementsAre("acs", "register", "register"));
}

TEST(DoctorRanking, JoinsPairsThatFailedInTheSameWay) {
  const auto causes = rank(pairs_with({failed_pair("host", "nic1", kPortDown),
                                       failed_pair("gaudi 0", "nic1", kPortDown)}),
                           {});
  ASSERT_EQ(causes.size(), 1U);
  EXPECT_THAT(causes[0].pairs, ElementsAre("host - nic1", "gaudi 0 - nic1"));
}

/// The name of one NIC begins with the name of the other.
TEST(DoctorRanking, TakesAFindingAboutOneNicForThatAlone) {
  const Pairs pairs =
      pairs_with({failed_pair("host", "nic1", kPortDown), good_pair("host", "nic10")});
  const auto of_other = rank(pairs, std::vector{finding_of("port", "nic10 port 1", Verdict::bad)});
  EXPECT_THAT(names_of(of_other), ElementsAre("open", "port"));
  const auto of_this = rank(pairs, std::vector{finding_of("port", "nic1 port 1", Verdict::bad)});
  EXPECT_THAT(names_of(of_this), ElementsAre("port", "open"));
}

TEST(DoctorRanking, TakesAFindingAboutADeviceByItsPciAddress) {
  Pair other = failed_pair("gaudi 1", "nic0", kNoP2p);
  other.device_address = "0000:44:00.0";
  const auto causes = rank(pairs_with({failed_pair("gaudi 0", "nic0", kNoP2p), other}),
                           std::vector{finding_of("bars", "0000:44:00.0", Verdict::bad)});
  ASSERT_EQ(names_of(causes).front(), "bars");
  EXPECT_THAT(causes[0].pairs, ElementsAre("gaudi 1 - nic0"));
}

TEST(DoctorRanking, MereSlownessIsNoCauseOfAFailure) {
  const auto causes = rank(pairs_with({failed_pair("gaudi 0", "nic0", kNoP2p)}),
                           std::vector{finding_of("limits", "", Verdict::slow)});
  EXPECT_THAT(names_of(causes), ElementsAre("register", "limits"));
}

TEST(DoctorRanking, TakesTheCauseThatAFailureNamesEvenIfItOnlyCostsSpeed) {
  const auto causes = rank(pairs_with({failed_pair("gaudi 0", "nic1", kPortDown)}),
                           std::vector{finding_of("port", "nic1 port 1", Verdict::slow)});
  ASSERT_EQ(names_of(causes), (std::vector<std::string>{"port", "open"}));
}

TEST(DoctorRanking, TakesALimitForTheCauseOfTheFailureThatNamesIt) {
  const PairError files{"open", "exhausted", "descriptor_limit", "open: Too many open files"};
  const PairError memory{"register", "exhausted", "memlock_limit", "register: no memory"};
  const std::vector<Finding> findings{finding_of("limits", "locked memory", Verdict::bad),
                                      finding_of("limits", "open files", Verdict::bad)};
  const auto of_files = rank(pairs_with({failed_pair("host", "nic0", files)}), findings);
  EXPECT_THAT(names_of(of_files), ElementsAre("limits", "open", "limits"));
  EXPECT_EQ(of_files[0].finding->subject, "open files");
  EXPECT_TRUE(of_files[2].pairs.empty());
  const auto of_memory = rank(pairs_with({failed_pair("host", "nic0", memory)}), findings);
  EXPECT_THAT(names_of(of_memory), ElementsAre("limits", "register", "limits"));
  EXPECT_EQ(of_memory[0].finding->subject, "locked memory");
}

TEST(DoctorRanking, DoesNotBlameACardForACopyThatWaitsForASlowNic) {
  const PairError copy{"copy", "timed out", "none", "copy: the copy takes too long"};
  const PairError complete{"complete", "timed out", "peer_slow", "complete nic0: no completion"};
  Pair host = failed_pair("host", "nic0", complete);
  host.outcome = PairOutcome::failed;
  Pair card = failed_pair("gaudi 0", "nic0", copy);
  card.outcome = PairOutcome::failed;
  const auto causes = rank(pairs_with({host, card}), {});
  EXPECT_THAT(names_of(causes), ElementsAre("complete", "copy"));
  EXPECT_THAT(causes[1].error->text, testing::HasSubstr("waits for nic0"));
  // If a NIC works, the card is the cause.
  const auto alone = rank(pairs_with({good_pair("host", "nic0"), card}), {});
  EXPECT_EQ(alone.at(0).error->text, copy.text);
}

TEST(DoctorRanking, PutsAFailedLookAtTheHardwareFirst) {
  Pairs pairs;
  pairs.no_look = PairError{"probe", "exhausted", "descriptor_limit", "open: Too many open files"};
  const auto causes = rank(pairs, std::vector{finding_of("kernel", "", Verdict::bad)});
  EXPECT_THAT(names_of(causes), ElementsAre("probe", "kernel"));
}

TEST(DoctorRanking, PutsFailuresBeforeSlowPairs) {
  const auto causes = rank(
      pairs_with({slow_pair("gaudi 0", "nic0", 1e9), failed_pair("gaudi 0", "nic1", kPortDown)}),
      std::vector{finding_of("link", "0000:3a:00.0", Verdict::slow),
                  finding_of("fork", "", Verdict::bad)});
  EXPECT_THAT(names_of(causes), ElementsAre("open", "fork", "link", "slow"));
  EXPECT_THAT(causes[2].pairs, ElementsAre("gaudi 0 - nic0"));
}

TEST(DoctorRanking, NamesTheNicThatIsSlowWithEveryMemory) {
  const auto causes =
      rank(pairs_with({slow_pair("host", "nic0", 2e9), slow_pair("gaudi 0", "nic0", 1e9),
                       good_pair("host", "nic1"), good_pair("gaudi 0", "nic1")}),
           {});
  ASSERT_EQ(causes.size(), 1U);
  EXPECT_THAT(causes[0].error->text,
              testing::StartsWith("slow: nic0: 1.00 GB/s with gaudi 0, 8 %"));
  EXPECT_THAT(causes[0].pairs, ElementsAre("gaudi 0 - nic0", "host - nic0"));
}

TEST(DoctorRanking, NamesTheMemoryThatIsSlowWithEveryNic) {
  const auto causes =
      rank(pairs_with({slow_pair("gaudi 0", "nic0", 2e9), slow_pair("gaudi 0", "nic1", 1e9),
                       good_pair("host", "nic0"), good_pair("host", "nic1")}),
           {});
  ASSERT_EQ(causes.size(), 1U);
  EXPECT_THAT(causes[0].error->text, testing::StartsWith("slow: gaudi 0: 1.00 GB/s with nic1"));
}

TEST(DoctorRanking, KnowsNoCheckThatDoesNotExist) {
  if (all_checks().empty()) GTEST_SKIP() << "this build has no checks";
  for (const std::string_view name : ranked_checks())
    EXPECT_NE(std::ranges::find(all_checks(), name, &Check::name), all_checks().end()) << name;
}

TEST(DoctorRanking, LooksAtHintsBeforeSteps) {
  const auto checks = checks_of("register", "dmabuf_no_p2p");
  const auto place = [&](std::string_view name) { return std::ranges::find(checks, name); };
  EXPECT_LT(place("acs"), place("limits"));
  EXPECT_TRUE(checks_of("nothing", "none").empty());
}

// The retries in this counter come from the failed pair.
TEST(DoctorRanking, BlamesNoCongestionForAPairThatFails) {
  const PairError unreachable{.step = "complete",
                              .code = "peer failed",
                              .hint = "peer_unreachable",
                              .text = "complete: retries exceeded"};
  const auto causes = rank(pairs_with({failed_pair("host", "nic0", unreachable)}),
                           std::vector{finding_of("congestion", "nic0 port 1", Verdict::slow)});
  ASSERT_EQ(causes.size(), 2U);
  EXPECT_TRUE(causes[0].error);
  EXPECT_TRUE(causes[1].pairs.empty());
}

TEST(DoctorRanking, HostMemoryProvesNothingAboutDeviceMemory) {
  const Finding lacks = finding_of("nic-imports", "nic0", Verdict::bad);
  for (const bool emulated : {false, true}) {
    Pairs pairs = pairs_with({good_pair("host", "nic0")});
    pairs.emulated = emulated;
    pairs.pairs[0].device_address.clear();
    EXPECT_FALSE(is_refuted(lacks, pairs)) << emulated;
    pairs.pairs.push_back(good_pair("gaudi 0", "nic0"));
    pairs.pairs.back().device_address = "0000:33:00.0";
    EXPECT_TRUE(is_refuted(lacks, pairs)) << emulated;
  }
}

}  // namespace
}  // namespace hbmwire::tools::doctor
