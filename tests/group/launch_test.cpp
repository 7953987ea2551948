// SPDX-License-Identifier: MIT
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "group/launch_environment.hpp"
#include "group/left_addresses.hpp"
#include "group/meeting_name.hpp"
#include "group/ranks.hpp"
#include "group/slurm_nodes.hpp"

namespace hbmwire::detail {
namespace {

using ::testing::HasSubstr;

Result<PmixJob> no_pmix_library() {
  return tl::make_unexpected(make_error(Errc::not_found, Stage::probe, "no library", "libpmix.so.2",
                                        Hint::group_launcher));
}

/// What a process is given, and what is found out of it.
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
const Start::Names kSrun{
    {"SLURM_JOB_ID", "77"},       {"SLURM_STEP_ID", "2"}, {"SLURM_PROCID", "5"},
    {"SLURM_NTASKS", "16"},       {"SLURM_JOB_NODELIST", "a[01-03]"},
    {"SLURM_STEP_NODELIST", "a[02-03]"}};
const Start::Names kMpirun{{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}};
const Start::Names kMpich{{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}};

// --- one source

TEST(LaunchFacts, OptionsSayAll) {
  Start start;
  start.options = {.meeting = "tcp://a:1", .rank = 2, .size = 3};
  EXPECT_EQ(found(start), "2 of 3 at tcp://a:1 by the program's options");
}

TEST(LaunchFacts, SettingsSayAll) {
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
  // 20000 + 77 + 2 * 997
  EXPECT_EQ(found({.variables = kSrun}), "5 of 16 at tcp://a02:22071 by Slurm's environment");
}

TEST(LaunchFacts, StepsAndJobsOfSlurmMeetAtPortsOfTheirOwn) {
  const auto port = [](const char* job, const char* step) {
    return found(Start{.variables = kSrun}.with({{"SLURM_JOB_ID", job}, {"SLURM_STEP_ID", step}}));
  };
  EXPECT_NE(port("77", "0"), port("77", "1"));
  EXPECT_NE(port("77", "0"), port("78", "0"));
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
  start.pmix = tl::make_unexpected(make_error(Errc::peer_failed, Stage::connect, "PMIx_Init", "PMIx"));
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

TEST(LaunchFacts, ACompanionOfWhatIsKnownMayBeMissing) {
  Start start{.variables = {{"RANK", "1"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}}};
  start.settings.size = 4;
  EXPECT_EQ(found(start), "1 of 4 at tcp://a:2 by torchrun's environment");
}

TEST(LaunchFacts, VariablesWithoutMeaningAreNamedWithTheirValue) {
  const auto refused = [](const Start::Names& names, const std::string& name, const char* text) {
    expect_refused(Start{.variables = names}.with({{name, text}}), name + "=" + text);
  };
  for (const char* const text : {"x", "-1", "1.5", " 1", "1 ", "0x1", "4096", "99999999999999999999"})
    refused(kTorchrun, "RANK", text);
  for (const char* const text : {"0", "4097", "eight"}) refused(kTorchrun, "WORLD_SIZE", text);
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

// --- lists of nodes

std::string nodes(std::string_view list, std::size_t most = 100) {
  const auto names = slurm_nodes(list, most, "SLURM_JOB_NODELIST");
  if (!names) return "refused " + std::string(names.error().subject);
  std::string text;
  for (const std::string& name : *names) text += (text.empty() ? "" : " ") + name;
  return text;
}

TEST(SlurmNodes, ListsAreWrittenOut) {
  EXPECT_EQ(nodes("gpu1"), "gpu1");
  EXPECT_EQ(nodes("a,b-2.example.org,c_3"), "a b-2.example.org c_3");
  EXPECT_EQ(nodes("n[1-3,07-09]x,gpu1"), "n1x n2x n3x n07x n08x n09x gpu1");
  EXPECT_EQ(nodes("n[08-11]"), "n08 n09 n10 n11");
  EXPECT_EQ(nodes("n[0-2]"), "n0 n1 n2");
  EXPECT_EQ(nodes("r[1-2]n[01-02]"), "r1n01 r1n02 r2n01 r2n02");
  EXPECT_EQ(nodes("[1-2]"), "1 2");
  EXPECT_EQ(nodes("n[000000000000000001]"), "n000000000000000001");
}

TEST(SlurmNodes, NoMoreThanTheFirstOnesAreWrittenOut) {
  EXPECT_EQ(nodes("a,b,c", 2), "a b");
  EXPECT_EQ(nodes("n[0-999999999]", 3), "n0 n1 n2");
  EXPECT_EQ(nodes("n[0-999999999][0-999999999][0-999999999]", 2), "n000 n001");
  EXPECT_EQ(slurm_nodes("n[0-999999999]", 4096, "X")->size(), 4096U);
}

TEST(SlurmNodes, BrokenListsAreRefused) {
  for (const char* const list :
       {"", ",", "a,", ",a", "a,,b", "n[", "n]", "n[]", "n[1", "n[1-]", "n[-1]", "n[3-1]", "n[1-2-3]",
        "n[1,]", "n[,1]", "n[a]", "n[[1]]", "n[1]]", "n[1][", "n[1000000000]", "n[1-9999999999999999999]",
        "n[0000000000000000001]", "a b", "a;b", "a/b", "a\nb", "a:1", "$(x)", "n[1 -2]"}) {
    EXPECT_EQ(nodes(list), "refused SLURM_JOB_NODELIST") << list;
  }
  EXPECT_EQ(nodes(std::string(256, 'a')), "refused SLURM_JOB_NODELIST");
  EXPECT_EQ(nodes(std::string(255, 'a')), std::string(255, 'a'));
  std::string deep;
  for (int i = 0; i < 20000; ++i) deep += "[1]";
  EXPECT_EQ(nodes(deep), "refused SLURM_JOB_NODELIST");
}

// --- names of meetings

TEST(MeetingNames, EachKindIsRead) {
  const auto address = parse_meeting("tcp://node1:7000");
  ASSERT_TRUE(address);
  EXPECT_EQ(address->kind, MeetingName::Kind::address);
  EXPECT_EQ(address->at, (HostPort{"node1", 7000}));
  EXPECT_FALSE(address->gives_ranks());
  EXPECT_EQ(parse_meeting("tcp://[fd00::1]:7000")->at, (HostPort{"fd00::1", 7000}));
  EXPECT_EQ(parse_meeting("pmix")->kind, MeetingName::Kind::pmix);
  const auto file = parse_meeting("file:///tmp/a group");
  ASSERT_TRUE(file);
  EXPECT_EQ(file->path, "/tmp/a group");
  EXPECT_TRUE(file->gives_ranks());
  const auto etcd = parse_meeting("etcd://store/jobs/7");
  ASSERT_TRUE(etcd);
  EXPECT_EQ(etcd->at, (HostPort{"store", 2379}));
  EXPECT_EQ(etcd->path, "jobs/7");
  EXPECT_FALSE(etcd->tls);
  EXPECT_TRUE(etcd->gives_ranks());
  const auto secure = parse_meeting("etcds://[::1]:2380/x");
  ASSERT_TRUE(secure);
  EXPECT_EQ(secure->at, (HostPort{"::1", 2380}));
  EXPECT_TRUE(secure->tls);
}

TEST(MeetingNames, OthersAreRefused) {
  const std::string long_name(201, 'n');
  const std::string long_path(4096, 'p');
  for (const std::string& text :
       {std::string(), std::string("node1:7000"), std::string("tcp://"), std::string("tcp://node1"),
        std::string("tcp://:7000"), std::string("tcp://node1:0"), std::string("tcp://node1:65536"),
        std::string("tcp://node1:7000/x"), std::string("tcp://tcp://node1:7000"),
        std::string("tcp://fd00::1:x"), std::string("file://"), std::string("file://tmp/x"),
        std::string("file:///tmp/"), std::string("file:/tmp/x"), "file:///" + long_path,
        std::string("etcd://store"), std::string("etcd://store/"), std::string("etcd:///name"),
        std::string("etcd://store:0/name"), "etcd://store/" + long_name,
        std::string("etcd://user:word@store/name"), std::string("etcd://user@store:1/name"),
        std::string("etcd://sto?re/name"), std::string("etcd://st\nore/name"), std::string("env"),
        std::string("PMIX"), std::string("http://a:1/x"), std::string("file:///a\0b", 11)}) {
    const auto name = parse_meeting(text);
    ASSERT_FALSE(name) << text;
    EXPECT_EQ(name.error().code, Errc::invalid_argument);
    EXPECT_EQ(name.error().stage, Stage::configure);
    EXPECT_EQ(name.error().hint, Hint::group_launcher);
  }
}

// --- what rank 0 leaves

TEST(LeftAddresses, AddressesAreReadBack) {
  const std::vector<std::string> addresses{"10.0.0.1:7000", "[fd00::1]:7000", "node1:1"};
  EXPECT_EQ(addresses_in(left_text(addresses)), addresses);
  EXPECT_TRUE(addresses_in(left_text({})).empty());
}

TEST(LeftAddresses, MoreAddressesThanAReaderTakesAreCut) {
  std::vector<std::string> many;
  for (int i = 1; i <= 500; ++i) many.push_back("10.0.0." + std::to_string(i % 250) + ":7000");
  const auto read = addresses_in(left_text(many));
  ASSERT_FALSE(read.empty());
  EXPECT_EQ(read.front(), many.front());
  EXPECT_LE(left_text(many).size(), kMaxLeftBytes);
}

TEST(LeftAddresses, APartOfATextHasNone) {
  const std::string text = left_text({"10.0.0.1:7000", "10.0.0.2:7000"});
  for (std::size_t size = 0; size < text.size(); ++size)
    EXPECT_TRUE(addresses_in(text.substr(0, size)).empty()) << size;
  EXPECT_TRUE(addresses_in(text + "x").empty());
  EXPECT_TRUE(addresses_in(text + text).empty());
}

TEST(LeftAddresses, ForeignBytesHaveNone) {
  const auto none = [](const std::string& lines) {
    EXPECT_TRUE(addresses_in("hbmwire group 1\n" + lines + "end\n").empty()) << lines;
  };
  none("10.0.0.1\n");
  none("10.0.0.1:0\n");
  none(":7000\n");
  none("a b:1\n");
  none("a\r:1\n");
  none("a:1\n\nb:1\n");
  none(std::string("a\0:1\n", 5));
  none("\xc3\xa4:1\n");
  none(std::string(254, 'a') + ":1\n");
  none("http://a:1\n");
  std::string many;
  for (int i = 0; i < 65; ++i) many += "a:1\n";
  none(many);
  for (const std::string& text :
       {std::string("{}"), std::string("hbmwire group 2\na:1\nend\n"), std::string(1 << 20, 'x'),
        std::string(100, '\n'), std::string("\0\0\0\0", 4), std::string("hbmwire group 1end\n")})
    EXPECT_TRUE(addresses_in(text).empty());
}

TEST(LeftAddresses, AddressesOfAChangedTextStillLookLikeAddresses) {
  const std::string text = left_text({"10.0.0.1:7000"});
  for (std::size_t at = 0; at < text.size(); ++at) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string changed = text;
      changed[at] = static_cast<char>(byte);
      for (const std::string& address : addresses_in(changed))
        EXPECT_TRUE(split_host_port(address)) << address;
    }
  }
}

// --- ranks in errors

TEST(RankText, RangesAreShort) {
  const auto text = [](std::vector<std::uint32_t> ranks) { return rank_text(ranks); };
  EXPECT_EQ(text({3}), "rank 3");
  EXPECT_EQ(text({3, 4}), "ranks 3, 4");
  EXPECT_EQ(text({0, 2, 3, 4, 5, 9}), "ranks 0, 2-5, 9");
  std::vector<std::uint32_t> odd;
  for (std::uint32_t rank = 1; rank < 4096; rank += 2) odd.push_back(rank);
  EXPECT_THAT(text(odd), HasSubstr(" more"));
  EXPECT_LT(text(odd).size(), sizeof(Error::subject));
}

}  // namespace
}  // namespace hbmwire::detail
