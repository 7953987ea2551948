// SPDX-License-Identifier: MIT
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "group/left_addresses.hpp"
#include "group/meeting_name.hpp"
#include "group/ranks.hpp"
#include "group/slurm_nodes.hpp"

namespace hbmwire::detail {
namespace {

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
  for (const char* const list : {"",
                                 ",",
                                 "a,",
                                 ",a",
                                 "a,,b",
                                 "n[",
                                 "n]",
                                 "n[]",
                                 "n[1",
                                 "n[1-]",
                                 "n[-1]",
                                 "n[3-1]",
                                 "n[1-2-3]",
                                 "n[1,]",
                                 "n[,1]",
                                 "n[a]",
                                 "n[[1]]",
                                 "n[1]]",
                                 "n[1][",
                                 "n[1000000000]",
                                 "n[1-9999999999999999999]",
                                 "n[0000000000000000001]",
                                 "a b",
                                 "a;b",
                                 "a/b",
                                 "a\nb",
                                 "a:1",
                                 "$(x)",
                                 "n[1 -2]"}) {
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

TEST(MeetingNames, NamesOfNoKindAreRefused) {
  // One byte more than is allowed, each.
  const std::string long_name(201, 'n');
  const std::string long_path(4096, 'p');
  for (const std::string& text : {std::string(),
                                  std::string("node1:7000"),
                                  std::string("tcp://"),
                                  std::string("tcp://node1"),
                                  std::string("tcp://:7000"),
                                  std::string("tcp://node1:0"),
                                  std::string("tcp://node1:65536"),
                                  std::string("tcp://node1:7000/x"),
                                  std::string("tcp://tcp://node1:7000"),
                                  std::string("tcp://fd00::1:x"),
                                  std::string("file://"),
                                  std::string("file://tmp/x"),
                                  std::string("file:///tmp/"),
                                  std::string("file:/tmp/x"),
                                  "file:///" + long_path,
                                  std::string("etcd://store"),
                                  std::string("etcd://store/"),
                                  std::string("etcd:///name"),
                                  std::string("etcd://store:0/name"),
                                  "etcd://store/" + long_name,
                                  std::string("etcd://user:word@store/name"),
                                  std::string("etcd://user@store:1/name"),
                                  std::string("etcd://sto?re/name"),
                                  std::string("etcd://st\nore/name"),
                                  std::string("env"),
                                  std::string("PMIX"),
                                  std::string("http://a:1/x"),
                                  std::string("file:///a\0b", 11)}) {
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

TEST(LeftAddresses, APartOfATextHasNoAddresses) {
  const std::string text = left_text({"10.0.0.1:7000", "10.0.0.2:7000"});
  for (std::size_t size = 0; size < text.size(); ++size)
    EXPECT_TRUE(addresses_in(text.substr(0, size)).empty()) << size;
  EXPECT_TRUE(addresses_in(text + "x").empty());
  EXPECT_TRUE(addresses_in(text + text).empty());
}

TEST(LeftAddresses, ForeignBytesHaveNoAddresses) {
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
  // A host name and port of 256 bytes: one more than a reader takes.
  none(std::string(254, 'a') + ":1\n");
  none("http://a:1\n");
  // One address more than a reader takes.
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
  EXPECT_THAT(text(odd), ::testing::HasSubstr(" more"));
  EXPECT_LT(text(odd).size(), sizeof(Error::subject));
}

}  // namespace
}  // namespace hbmwire::detail
