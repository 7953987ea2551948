// SPDX-License-Identifier: MIT
#include "tools/common/command_line.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "hbmwire/host_port.hpp"

#include "tools/common/command.hpp"
#include "tools/common/nearest.hpp"
#include "tools/common/options.hpp"

namespace hbmwire::tools {
namespace {

struct Said {
  std::optional<int> code;
  std::string out;
  std::string err;
};

/// Parses `words` with an app like those of the tools.
Said parse(std::vector<std::string> words) {
  CLI::App app("An app.", "app");
  CommonOptions options;
  std::string host;
  app.add_option("HOST", host, "Where")->required();
  add_common_options(app, options);
  words.insert(words.begin(), "app");
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Said said;
  said.code = parse_command_line(app, "app", static_cast<int>(argv.size()), argv.data());
  said.out = testing::internal::GetCapturedStdout();
  said.err = testing::internal::GetCapturedStderr();
  return said;
}

struct Wrong {
  std::vector<std::string> words;
  std::string sentence;
};

TEST(CommandLine, MistakesAreNamed) {
  const Wrong cases[] = {
      {{"h", "--jsn"}, "--jsn: unknown option; did you mean --json?"},
      {{"h", "--meomry", "host"}, "--meomry: unknown option; did you mean --memory?"},
      {{"h", "--time=3"}, "--time: unknown option; did you mean --timeout?"},
      {{"h", "--frobnicate"}, "--frobnicate: unknown option"},
      {{"h", "-z"}, "-z: unknown option"},
      // A misspelt option takes no value: the word after it is HOST.
      {{"--jsn"}, "--jsn: unknown option; did you mean --json?"},
      {{}, "HOST is missing"},
      {{"h", "i"}, "i: one argument too many"},
      {{"h", "-p", "70000"}, "-p 70000: a port is 1 to 65535"},
      {{"h", "-p", "x"}, "-p x: a port is 1 to 65535"},
      {{"h", "--port=-1"}, "-p -1: a port is 1 to 65535"},
      {{"h", "-p"}, "-p needs a value"},
      {{"h", "-n", "0"}, "-n 0: give a number from 1 to 1000000"},
      {{"h", "-m", "gold"}, "-m gold: give auto, cuda, gaudi, host or rocm"},
      {{"h", "-m", "gaudy"}, "-m gaudy: give auto, cuda, gaudi, host or rocm; did you mean gaudi?"},
      {{"h", "-s", "4Q"}, "-s 4Q: give a number of bytes from 1 on"},
      // CLI11 itself would take the next word, or drop the value.
      {{"h", "--memory=", "host"}, "-m needs a value"},
      {{"h", "--memory", ""}, "-m needs a value"},
      {{"h", "-m", ""}, "-m needs a value"},
      {{"h", "--memory", "--timeout"}, "-m needs a value; if --timeout is it: --memory=--timeout"},
      {{"h", "-m", "-p"}, "-m needs a value; if -p is it: --memory=-p"},
      {{"h", "-m", "--"}, "-m needs a value"},
      {{"h", "--json=1"}, "--json=1: --json takes no value"},
      {{"h", "--json="}, "--json=: --json takes no value"},
  };
  for (const Wrong& wrong : cases) {
    const Said said = parse(wrong.words);
    EXPECT_EQ(said.code, kExitUsage) << wrong.sentence;
    EXPECT_EQ(said.err.find("app: " + wrong.sentence), 0U) << said.err << wrong.sentence;
    EXPECT_NE(said.err.find("; see app --help\n"), std::string::npos) << said.err;
    EXPECT_EQ(said.out, "");
  }
}

TEST(CommandLine, AMistakeIsAJsonObjectWithTheOptionJson) {
  const Said said = parse({"h", "--json", "--prot", "7"});
  EXPECT_EQ(said.code, kExitUsage);
  const Json object = Json::parse(said.out);
  EXPECT_EQ(object.at("exit_code"), kExitUsage);
  EXPECT_EQ(object.at("error"), "--prot: unknown option; did you mean --port?; see app --help");
  EXPECT_NE(said.err.find("--prot"), std::string::npos);
}

TEST(CommandLine, AGoodCommandLinePrintsNothing) {
  const Said said = parse({"-p", "0", "-s", "4M", "--memory=host", "--", "h"});
  EXPECT_FALSE(said.code);
  EXPECT_EQ(said.out + said.err, "");
}

TEST(CommandLine, APortIsGivenOnce) {
  CLI::App app("An app.", "app");
  CommonOptions options;
  add_common_options(app, options);
  const CLI::Option& port = *app.get_option("--port");
  EXPECT_EQ(place_of("[::1]:7000", 20000, port), (HostPort{"::1", 7000}));
  EXPECT_EQ(place_of("tcp://node2", 20000, port), (HostPort{"node2", 20000}));
  app.parse("-p 20000");
  EXPECT_EQ(place_of("node2", 20000, port), (HostPort{"node2", 20000}));
  EXPECT_EQ(place_of("node2:20000", 20000, port), (HostPort{"node2", 20000}));
  const auto two = place_of("node2:7000", 20000, port);
  ASSERT_FALSE(two);
  EXPECT_EQ(two.error().exit_code, kExitUsage);
  EXPECT_EQ(two.error().text, "node2:7000 names port 7000, and -p 20000: give one of them");
}

TEST(Nearest, NoWordIsNearestWhenAllAreFar) {
  const std::vector<std::string> known{"server", "client", "perf", "info", "emulate"};
  EXPECT_EQ(nearest("servr", known), "server");
  EXPECT_EQ(nearest("cleint", known), "client");
  EXPECT_EQ(nearest("emul", known), "emulate");
  EXPECT_EQ(nearest("preform", known), std::nullopt);
  EXPECT_EQ(nearest("", known), std::nullopt);
}

}  // namespace
}  // namespace hbmwire::tools
