// SPDX-License-Identifier: MIT
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "group/launch_environment.hpp"

namespace hbmwire::detail {
namespace {

using ::testing::HasSubstr;

Result<PmixJob> no_pmix_library() {
  return tl::make_unexpected(make_error(Errc::not_found, Stage::probe, "no library", "libpmix.so.2",
                                        Hint::group_launcher));
}

/// The variables that a process is given, and the facts that are found in them.
struct Start {
  using Names = std::map<std::string, std::string>;

  Names variables = {};
  GroupSettings settings = {};
  GroupOptions options = {};
  Result<PmixJob> pmix = no_pmix_library();
  mutable int pmix_asked = 0;

  [[nodiscard]] Result<LaunchFacts> find() const {
    return find_facts(
        options, settings,
        [&](const char* name) -> std::optional<std::string> {
          const auto found = variables.find(name);
          if (found == variables.end() || found->second.empty()) return std::nullopt;
          return found->second;
        },
        [&] {
          ++pmix_asked;
          return pmix;
        });
  }

  [[nodiscard]] Start with(const Names& more) const {
    Start start = *this;
    for (const auto& [name, text] : more) start.variables[name] = text;
    return start;
  }
};

/// "RANK of SIZE at MEETING by LAUNCHER", or the error's subject and cause.
std::string found(const Start& start) {
  const auto facts = start.find();
  if (!facts) return std::string(facts.error().subject) + ": " + facts.error().call;
  const auto text = [](const std::optional<std::uint32_t>& number) {
    return number ? std::to_string(*number) : "?";
  };
  return text(facts->rank) + " of " + text(facts->size) + " at " +
         (facts->meeting.empty() ? "?" : facts->meeting) + " by " + facts->launcher;
}

void expect_refused(const Start& start, std::string_view subject) {
  const auto facts = start.find();
  ASSERT_FALSE(facts) << found(start) << ", where " << subject << " was to be refused";
  EXPECT_EQ(facts.error().subject, std::string(subject));
  EXPECT_EQ(facts.error().stage, Stage::configure);
  EXPECT_EQ(facts.error().hint, Hint::group_launcher);
}

const Start::Names kTorchrun{{"RANK", "3"},
                             {"WORLD_SIZE", "8"},
                             {"MASTER_ADDR", "node1"},
                             {"MASTER_PORT", "29500"},
                             {"TORCHELASTIC_RUN_ID", "none"}};
const Start::Names kSrun{{"SLURM_JOB_ID", "77"},
                         {"SLURM_STEP_ID", "2"},
                         {"SLURM_PROCID", "5"},
                         {"SLURM_NTASKS", "16"},
                         {"SLURM_JOB_NODELIST", "a[01-03]"},
                         {"SLURM_STEP_NODELIST", "a[02-03]"}};
const Start::Names kMpirun{{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}};
const Start::Names kMpich{{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}};

// --- one source

TEST(LaunchFacts, OptionsAloneAreEnough) {
  Start start;
  start.options = {.meeting = "tcp://a:1", .rank = 2, .size = 3};
  EXPECT_EQ(found(start), "2 of 3 at tcp://a:1 by the program's options");
}

TEST(LaunchFacts, SettingsAloneAreEnough) {
  const Start start{.settings = {.meeting = "file:///tmp/g", .rank = 0, .size = 2}};
  EXPECT_EQ(found(start), "0 of 2 at file:///tmp/g by HBMWIRE_GROUP_RANK");
}

TEST(LaunchFacts, RankMayStayOpenAtAFile) {
  const Start start{.settings = {.meeting = "file:///tmp/g", .rank = {}, .size = 2}};
  EXPECT_EQ(found(start), "? of 2 at file:///tmp/g by HBMWIRE_GROUP_SIZE");
}

TEST(LaunchFacts, NothingIsFoundWithoutAnyLauncher) {
  EXPECT_EQ(found(Start{}), "? of ? at ? by the program's options");
}

TEST(LaunchFacts, TorchrunSaysAllAndTheMeetingIsOnePortFurther) {
  EXPECT_EQ(found({.variables = kTorchrun}),
            "3 of 8 at tcp://node1:29501 by torchrun's environment");
  const Start ipv6 = Start{.variables = kTorchrun}.with({{"MASTER_ADDR", "fd00::1"}});
  EXPECT_EQ(found(ipv6), "3 of 8 at tcp://[fd00::1]:29501 by torchrun's environment");
}

TEST(LaunchFacts, SrunSaysAllAndTheMeetingIsAtTheStepsFirstNode) {
  // 20000 + job 77 + 997 * step 2
  EXPECT_EQ(found({.variables = kSrun}), "5 of 16 at tcp://a02:22071 by Slurm's environment");
}

TEST(LaunchFacts, StepsAndJobsOfSlurmMeetAtPortsOfTheirOwn) {
  const auto port = [](const char* job, const char* step) {
    return found(Start{.variables = kSrun}.with({{"SLURM_JOB_ID", job}, {"SLURM_STEP_ID", step}}));
  };
  EXPECT_NE(port("77", "0"), port("77", "1"));
  EXPECT_NE(port("77", "0"), port("78", "0"));
  // The greatest numbers: the port is still one of the ten thousand from 20000 on.
  EXPECT_THAT(port("4294967295", "4294967295"), HasSubstr("5 of 16 at tcp://a02:2"));
}

TEST(LaunchFacts, MpirunAndMpichSayRankAndSizeAlone) {
  EXPECT_EQ(found({.variables = kMpirun}), "2 of 4 at ? by Open MPI's environment");
  EXPECT_EQ(found({.variables = kMpich}), "1 of 4 at ? by MPICH's environment");
}

TEST(LaunchFacts, MpichInAJobOfSlurmMeetsAtTheJobsFirstNode) {
  const Start start = Start{.variables = kMpich}.with(kSrun);
  // The proxies that start its ranks are steps of their own, and those differ by machine.
  EXPECT_EQ(found(start), "1 of 4 at tcp://a01:20077 by MPICH's environment");
}

TEST(LaunchFacts, AnIndexedJobOfKubernetesSaysTheRank) {
  Start start{.variables = {{"JOB_COMPLETION_INDEX", "3"}},
              .settings = {.meeting = "tcp://job-0.job:7000", .rank = {}, .size = 4}};
  EXPECT_EQ(found(start), "3 of 4 at tcp://job-0.job:7000 by Kubernetes' environment");
  start.settings = {};
  start = start.with({{"MASTER_ADDR", "job-0.job"}, {"MASTER_PORT", "7000"}, {"WORLD_SIZE", "4"}});
  expect_refused(start, "RANK");
}

TEST(LaunchFacts, PmixSaysAll) {
  const Start start{.variables = {{"PMIX_RANK", "1"}}, .pmix = PmixJob{.rank = 1, .size = 4}};
  EXPECT_EQ(found(start), "1 of 4 at pmix by PMIx");
}

// --- several sources

TEST(LaunchFacts, OptionsGoBeforeSettingsAndThoseBeforeLaunchers) {
  Start start = Start{.variables = kTorchrun}.with(kSrun).with(kMpirun);
  EXPECT_EQ(found(start), "3 of 8 at tcp://node1:29501 by torchrun's environment");
  start.settings.rank = 1;
  EXPECT_EQ(found(start), "1 of 8 at tcp://node1:29501 by HBMWIRE_GROUP_RANK");
  start.settings.meeting = "tcp://b:2";
  EXPECT_EQ(found(start), "1 of 8 at tcp://b:2 by HBMWIRE_GROUP_RANK");
  start.options = {.meeting = "tcp://c:3", .rank = 0, .size = 2};
  EXPECT_EQ(found(start), "0 of 2 at tcp://c:3 by the program's options");
}

TEST(LaunchFacts, AnInnerLauncherGoesBeforeAnOuterOne) {
  EXPECT_EQ(found(Start{.variables = kMpirun}.with(kSrun)),
            "2 of 4 at tcp://a01:20077 by Open MPI's environment");
}

TEST(LaunchFacts, PmixGoesBeforeTheEnvironment) {
  Start start = Start{.variables = kSrun}.with(kMpirun).with({{"PMIX_RANK", "1"}});
  start.pmix = PmixJob{.rank = 1, .size = 4};
  EXPECT_EQ(found(start), "1 of 4 at pmix by PMIx");
  start.settings.meeting = "env";
  EXPECT_EQ(found(start), "2 of 4 at tcp://a01:20077 by Open MPI's environment");
  EXPECT_EQ(start.pmix_asked, 1);
}

TEST(LaunchFacts, PmixIsNotAskedWhereItIsNotNeeded) {
  Start start{.variables = {{"PMIX_RANK", "1"}}, .pmix = PmixJob{.rank = 1, .size = 4}};
  start.options = {.meeting = "tcp://a:1", .rank = 0, .size = 2};
  EXPECT_EQ(found(start), "0 of 2 at tcp://a:1 by the program's options");
  EXPECT_EQ(start.pmix_asked, 0);
}

TEST(LaunchFacts, TorchrunBelowSrunWithPmixIsNoProcessOfPmix) {
  Start start = Start{.variables = kTorchrun}.with({{"PMIX_RANK", "0"}});
  start.pmix = PmixJob{.rank = 0, .size = 2};
  EXPECT_EQ(found(start), "3 of 8 at tcp://node1:29501 by torchrun's environment");
  EXPECT_EQ(start.pmix_asked, 0);
}

TEST(LaunchFacts, AnotherRankThanPmixKnowsDoesNotMeetThere) {
  Start start{.variables = {{"PMIX_RANK", "1"}}, .pmix = PmixJob{.rank = 1, .size = 4}};
  start.settings.rank = 2;
  EXPECT_EQ(found(start), "2 of 4 at ? by HBMWIRE_GROUP_RANK");
  start.settings.meeting = "pmix";
  expect_refused(start, "rank 2");
}

TEST(LaunchFacts, WithoutALibraryOfPmixTheEnvironmentServes) {
  Start start = Start{.variables = kSrun}.with({{"PMIX_RANK", "5"}});
  EXPECT_EQ(found(start), "5 of 16 at tcp://a02:22071 by Slurm's environment");
  start = Start{.variables = kMpirun}.with({{"PMIX_RANK", "2"}});
  EXPECT_EQ(found(start), "libpmix.so.2: no library");
}

TEST(LaunchFacts, AServerOfPmixThatFailsIsNotPassedOver) {
  Start start = Start{.variables = kSrun}.with({{"PMIX_RANK", "5"}});
  start.pmix =
      tl::make_unexpected(make_error(Errc::peer_failed, Stage::connect, "PMIx_Init", "PMIx"));
  EXPECT_EQ(found(start), "PMIx: PMIx_Init");
}

TEST(LaunchFacts, MeetingByPmixNeedsALauncherWithIt) {
  Start start = Start{.variables = kSrun};
  start.settings.meeting = "pmix";
  expect_refused(start, "PMIX_RANK");
}

// --- mistakes

TEST(LaunchFacts, AMissingCompanionIsNamed) {
  const auto without = [](Start::Names names, const char* name) {
    names.erase(name);
    expect_refused({.variables = names}, name);
    names[name] = "";  // set to nothing is not set
    expect_refused({.variables = names}, name);
  };
  without(kTorchrun, "RANK");
  without(kTorchrun, "WORLD_SIZE");
  without(kTorchrun, "MASTER_ADDR");
  without(kTorchrun, "MASTER_PORT");
  without(kSrun, "SLURM_PROCID");
  without(kSrun, "SLURM_NTASKS");
  without(kSrun, "SLURM_JOB_ID");
  without(kMpirun, "OMPI_COMM_WORLD_RANK");
  without(kMpirun, "OMPI_COMM_WORLD_SIZE");
  without(kMpich, "PMI_RANK");
  without(kMpich, "PMI_SIZE");
  Start::Names no_nodes = kSrun;
  no_nodes.erase("SLURM_STEP_NODELIST");
  no_nodes.erase("SLURM_JOB_NODELIST");
  expect_refused({.variables = no_nodes}, "SLURM_JOB_NODELIST");
}

TEST(LaunchFacts, AVariableWhoseFactIsKnownOtherwiseMayBeMissing) {
  Start start{.variables = {{"RANK", "1"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}}};
  start.settings.size = 4;
  EXPECT_EQ(found(start), "1 of 4 at tcp://a:2 by torchrun's environment");
}

TEST(LaunchFacts, VariablesWithoutMeaningAreNamedWithTheirValue) {
  const auto refused = [](const Start::Names& names, const std::string& name, const char* text) {
    expect_refused(Start{.variables = names}.with({{name, text}}), name + "=" + text);
  };
  for (const char* const text :
       {"x", "-1", "1.5", " 1", "1 ", "0x1", "4096", "99999999999999999999"})
    refused(kTorchrun, "RANK", text);
  for (const char* const text : {"0", "4097", "eight"}) refused(kTorchrun, "WORLD_SIZE", text);
  // The meeting would be one port further.
  for (const char* const text : {"0", "65535", "http"}) refused(kTorchrun, "MASTER_PORT", text);
  refused(kSrun, "SLURM_PROCID", "one");
  refused(kSrun, "SLURM_NTASKS", "0");
  refused(kSrun, "SLURM_JOB_ID", "4294967296");
  refused(kSrun, "SLURM_STEP_ID", "batch");
  refused(kMpirun, "OMPI_COMM_WORLD_SIZE", "4 ");
  refused(kMpich, "PMI_RANK", "+1");
  Start kubernetes{.variables = {{"JOB_COMPLETION_INDEX", "first"}}, .settings = {}};
  expect_refused(kubernetes, "JOB_COMPLETION_INDEX=first");
  expect_refused(Start{.variables = kSrun}.with({{"SLURM_STEP_NODELIST", "a[1-"}}),
                 "SLURM_STEP_NODELIST");
}

TEST(LaunchFacts, VariablesThatAreNotNeededAreNotLookedAt) {
  Start start = Start{.variables = kTorchrun}.with({{"SLURM_NTASKS", "x"}, {"PMI_RANK", "x"}});
  EXPECT_EQ(found(start), "3 of 8 at tcp://node1:29501 by torchrun's environment");
  start.variables["RANK"] = "x";
  start.settings = {.meeting = "tcp://a:1", .rank = 0, .size = 1};
  EXPECT_EQ(found(start), "0 of 1 at tcp://a:1 by HBMWIRE_GROUP_RANK");
}

}  // namespace
}  // namespace hbmwire::detail
