// SPDX-License-Identifier: MIT
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/doctor/remote/jobs.hpp"
#include "tools/doctor/remote/link_run.hpp"
#include "tools/doctor/remote/link_runner.hpp"

namespace hbmwire::tools::doctor {
namespace {

using testing::HasSubstr;

/// Answers commands as it is told to.
class FakeAgent final : public Agent {
 public:
  using Answer = std::function<Heard(const Json& command)>;

  explicit FakeAgent(Answer answer) : answer_(std::move(answer)) {}

  Outcome<void> tell(const Json& command) override {
    commands.push_back(command);
    return {};
  }

  Outcome<Heard> hear(const Deadline& /*until*/, int /*cancel_fd*/) override {
    return answer_(commands.empty() ? Json(nullptr) : commands.back());
  }

  [[nodiscard]] bool is_over() const noexcept override { return over; }

  std::string end() override {
    over = true;
    return "killed by signal 11 (Segmentation fault)";
  }

  std::vector<Json> commands;
  bool over = false;

 private:
  Answer answer_;
};

Heard value_of(Json value) { return {.kind = Heard::Kind::value, .value = std::move(value)}; }

/// What an agent says where all goes well.
Heard good_answer(const Json& command, std::uint32_t mtu_bytes = 4096) {
  const std::string what = command.is_object() ? command.value("do", "") : "open";
  if (what == "open") return value_of({{"open", true}});
  if (what == "nic") {
    return value_of(
        {{"end", "AAAA"},
         {"path", "host memory"},
         {"distance", "PIX"},
         {"possible", 12.5e9},
         {"limit", "link"},
         {"mtu", command.value("mtu", 0U) == 0 ? mtu_bytes : command.value("mtu", 0U)}});
  }
  if (what == "compare") return value_of({{"compared", 4U << 20U}, {"wrong", 0}});
  if (what == "time") return value_of({{"write", 11e9}, {"read", 10e9}, {"latency", 2000.0}});
  return value_of({{"done", true}});
}

LinkPair unknown_pair() {
  return {.here = {.memory = "host", .nic = "a"}, .there = {.memory = "host", .nic = "b"}};
}

LinkRunOptions options() {
  return {.on_step = [](const char*) {}};
}

Json error_json(const char* step, const char* hint) {
  return {{"error", {{"step", step}, {"code", "timed out"}, {"hint", hint}, {"text", "why"}}}};
}

TEST(Link, IsVerifiedAndTimedInBothDirections) {
  FakeAgent here([](const Json& command) { return good_answer(command); });
  FakeAgent there([](const Json& command) { return good_answer(command); });
  const auto pair = run_link(unknown_pair(), here, there, options());
  ASSERT_TRUE(pair);
  EXPECT_FALSE(pair->error);
  EXPECT_EQ(pair->outcome, PairOutcome::host);
  EXPECT_EQ(pair->verified_bytes, 16U << 20U);
  EXPECT_EQ(pair->out.by_write, 11e9);
  EXPECT_EQ(pair->back.by_read, 10e9);
  EXPECT_EQ(here.commands.back(), Json({{"do", "drop"}}));
  EXPECT_EQ(there.commands.back(), Json({{"do", "drop"}}));
}

TEST(Link, IsSlowWhenOneDirectionIs) {
  FakeAgent here([](const Json& command) { return good_answer(command); });
  FakeAgent there([](const Json& command) {
    if (command.value("do", "") == "time")
      return value_of({{"write", 1e9}, {"read", 11e9}, {"latency", 1.0}});
    return good_answer(command);
  });
  const auto pair = run_link(unknown_pair(), here, there, options());
  ASSERT_TRUE(pair);
  EXPECT_EQ(pair->outcome, PairOutcome::slow);
}

/// Each answer of one side in turn is the odd one.
void expect_each_odd_answer(const Heard& odd, bool is_over) {
  for (const bool ours : {true, false}) {
    for (std::size_t nth = 0;; ++nth) {
      std::size_t count = 0;
      const auto sometimes = [&](const Json& command) {
        return count++ == nth ? odd : good_answer(command);
      };
      const auto always = [](const Json& command) { return good_answer(command); };
      FakeAgent here = ours ? FakeAgent(sometimes) : FakeAgent(always);
      FakeAgent there = ours ? FakeAgent(always) : FakeAgent(sometimes);
      const auto pair = run_link(unknown_pair(), here, there, options());
      ASSERT_TRUE(pair) << nth;
      if (count <= nth) break;
      EXPECT_EQ(here.over || there.over, is_over) << nth;
      if (is_over) {
        ASSERT_TRUE(pair->error) << nth;
        EXPECT_EQ(pair->side, ours ? Side::here : Side::there) << nth;
      }
      EXPECT_FALSE(pair->error && pair->works()) << nth;
    }
  }
}

TEST(Link, FailsWhereAnAgentHangs) { expect_each_odd_answer({.kind = Heard::Kind::silent}, true); }

TEST(Link, FailsWhereAnAgentEnds) { expect_each_odd_answer({.kind = Heard::Kind::ended}, true); }

TEST(Link, FailsWhereAnAgentSaysSo) {
  expect_each_odd_answer(value_of(error_json("open", "no_active_port")), false);
}

TEST(Link, TakesAnyAnswerOfAStranger) {
  const Json strange[] = {nullptr,
                          "text",
                          1,
                          Json::array({1, 2}),
                          {{"error", "no object"}},
                          {{"error", {{"step", 1}}}},
                          {{"staged", 7}},
                          {{"end", 5}, {"path", 5}, {"possible", "x"}, {"limit", {}}, {"mtu", -1}},
                          {{"end", "A"}, {"possible", -1e300}, {"mtu", 1e300}},
                          {{"compared", -1}, {"wrong", 3}},
                          {{"compared", 1e99}, {"wrong", "x"}},
                          {{"write", -1}, {"read", "x"}, {"latency", nullptr}}};
  for (const Json& each : strange) expect_each_odd_answer(value_of(each), false);
}

TEST(Link, EndsWithAnInterrupt) {
  FakeAgent here([](const Json&) { return Heard{.kind = Heard::Kind::interrupted}; });
  FakeAgent there([](const Json& command) { return good_answer(command); });
  const auto pair = run_link(unknown_pair(), here, there, options());
  ASSERT_FALSE(pair);
  EXPECT_TRUE(pair.error().interrupted);
}

TEST(Link, NamesTheSizeOfPacketsThatArrive) {
  std::uint32_t mtu_bytes = 0;
  const auto lossy = [&](const Json& command) {
    if (command.value("do", "") == "nic")
      mtu_bytes = command.value("mtu", 0U) == 0 ? 4096 : command.value("mtu", 0U);
    if (command.value("do", "") == "move" && mtu_bytes > 1024)
      return value_of(error_json("complete", "peer_unreachable"));
    return good_answer(command);
  };
  FakeAgent here(lossy);
  FakeAgent there(lossy);
  const auto pair = run_link(unknown_pair(), here, there, options());
  ASSERT_TRUE(pair);
  EXPECT_EQ(pair->outcome, PairOutcome::failed);
  ASSERT_TRUE(pair->error);
  EXPECT_THAT(pair->error->text, HasSubstr("4096 bytes do not arrive, and those of 1024 bytes do"));
}

Party party_of(const std::vector<std::string>& nics, FakeAgent::Answer answer,
               std::vector<FakeAgent*>* started = nullptr) {
  Party party;
  for (const std::string& name : nics) party.plan.nics.push_back({.name = name});
  party.plan.memories.push_back({.label = "host", .near = nics.front()});
  party.start = [answer = std::move(answer),
                 started](const PlanMemory&) -> Outcome<std::unique_ptr<Agent>> {
    auto agent = std::make_unique<FakeAgent>(answer);
    if (started != nullptr) started->push_back(agent.get());
    return std::unique_ptr<Agent>(std::move(agent));
  };
  return party;
}

TEST(Links, OpenAMemoryOnceForAllPairs) {
  std::vector<FakeAgent*> started;
  Party here = party_of(
      {"a", "b"}, [](const Json& c) { return good_answer(c); }, &started);
  Party there = party_of({"c", "d", "e"}, [](const Json& c) { return good_answer(c); });
  const auto pairs = LinkRunner(here, there, {}, nullptr).run();
  ASSERT_TRUE(pairs);
  EXPECT_EQ(pairs->nics.size(), 6U);
  EXPECT_EQ(pairs->memories.size(), 1U);
  EXPECT_EQ(started.size(), 1U);
}

TEST(Links, LeaveAloneWhatHasHungTwice) {
  std::vector<FakeAgent*> started;
  Party here = party_of({"a"}, [](const Json& c) { return good_answer(c); });
  const auto hangs = [](const Json& command) {
    if (command.is_object() && command.value("do", "") == "connect")
      return Heard{.kind = Heard::Kind::silent};
    return good_answer(command);
  };
  Party there = party_of({"c", "d", "e", "f"}, hangs, &started);
  const auto pairs = LinkRunner(here, there, {}, nullptr).run();
  ASSERT_TRUE(pairs);
  EXPECT_EQ(started.size(), 2U);
  for (const LinkPair& pair : pairs->nics) EXPECT_FALSE(pair.works());
}

TEST(Links, TellWhyAMemoryCannotBeHad) {
  Party here = party_of({"a"}, [](const Json& c) { return good_answer(c); });
  Party there = party_of({"c"}, [](const Json&) {
    Json answer = error_json("open", "gaudi_busy");
    answer["error"]["code"] = to_string(Errc::busy);
    return value_of(answer);
  });
  const auto pairs = LinkRunner(here, there, {}, nullptr).run();
  ASSERT_TRUE(pairs);
  EXPECT_EQ(pairs->nics.front().outcome, PairOutcome::untried);
  EXPECT_EQ(pairs->nics.front().side, Side::there);
  EXPECT_EQ(pairs->nics.front().error->hint, "gaudi_busy");
}

TEST(Plans, OfAStrangerAreBounded) {
  Json nics = Json::array();
  for (int i = 0; i < 1000; ++i) nics.push_back({{"name", std::string(5000, '\x1b')}});
  const Json strange[] = {
      {{"plan", {{"nics", nics}, {"memories", nics}, {"no_nics", 5}, {"memcpy", "x"}}}},
      {{"plan", 5}},
      {{"plan", {{"nics", 5}, {"memories", {{"a", 1}}}}}},
      {{"plan", Json::array({1, nullptr, "x"})}},
  };
  for (const Json& each : strange) {
    FakeAgent agent([&](const Json&) { return value_of(each); });
    const auto plan = plan_of(agent, {});
    ASSERT_TRUE(plan);
    EXPECT_LE(plan->nics.size(), 64U);
    for (const PlanNic& nic : plan->nics) {
      EXPECT_LE(nic.name.size(), 128U);
      EXPECT_THAT(nic.name, testing::Not(HasSubstr("\x1b")));
    }
  }
}

TEST(Plans, AreNotThereWhenTheProcessEnds) {
  FakeAgent agent([](const Json&) { return Heard{.kind = Heard::Kind::ended}; });
  const auto plan = plan_of(agent, {});
  ASSERT_FALSE(plan);
  EXPECT_THAT(plan.error().text, HasSubstr("signal 11"));
}

}  // namespace
}  // namespace hbmwire::tools::doctor
