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

/// Answers commands as the test wants.
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

/// The answers of an agent without failures.
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
  EXPECT_EQ(pair->verified_bytes, 24U << 20U);  // six comparisons of 4 MiB
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

/// Runs the pair once for each answer of each side. That answer is then `odd` instead.
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
      // The run had at most `nth` answers, so each of this side's answers was replaced once.
      if (count <= nth) break;
      EXPECT_EQ(here.over || there.over, is_over) << nth;
      const bool at_the_end = (ours ? here : there).commands.back() == Json({{"do", "drop"}});
      if (is_over && pair->error) {
        EXPECT_EQ(pair->side, ours ? Side::here : Side::there) << nth;
      }
      EXPECT_TRUE(pair->error || !is_over || at_the_end) << nth;
      EXPECT_FALSE(pair->error && pair->works()) << nth;
    }
  }
}

TEST(Link, FailsWhereAnAgentHangs) { expect_each_odd_answer({.kind = Heard::Kind::silent}, true); }

TEST(Link, FailsWhereAnAgentEnds) { expect_each_odd_answer({.kind = Heard::Kind::ended}, true); }

TEST(Link, FailsIfAnAgentReportsAFailure) {
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

TEST(Link, IsNotVerifiedWithoutNumbers) {
  for (const char* const step : {"compare", "time"}) {
    FakeAgent here([](const Json& command) { return good_answer(command); });
    FakeAgent there([&](const Json& command) {
      return command.value("do", "") == step ? value_of({{"done", true}}) : good_answer(command);
    });
    const auto pair = run_link(unknown_pair(), here, there, options());
    ASSERT_TRUE(pair);
    EXPECT_FALSE(pair->works()) << step;
    EXPECT_TRUE(pair->error) << step;
  }
}

TEST(Link, NamesTheEndWhereBytesDiffer) {
  FakeAgent here([](const Json& command) { return good_answer(command); });
  FakeAgent there([](const Json& command) {
    if (command.value("do", "") != "compare") return good_answer(command);
    return value_of(
        {{"compared", 4U << 20U},
         {"wrong", 1},
         {"differs",
          {{"step", "verify"}, {"code", "data mismatch"}, {"hint", "none"}, {"text", "why"}}}});
  });
  const auto pair = run_link(unknown_pair(), here, there, options());
  ASSERT_TRUE(pair);
  EXPECT_EQ(pair->outcome, PairOutcome::failed);
  EXPECT_EQ(pair->noticed_by, Side::there);
  EXPECT_FALSE(pair->side) << "it may be either NIC's fault";
}

TEST(Link, AFailureToCloseKeepsTheResult) {
  FakeAgent here([](const Json& command) { return good_answer(command); });
  FakeAgent there([](const Json& command) {
    return command.value("do", "") == "drop" ? value_of(error_json("open", "none"))
                                             : good_answer(command);
  });
  const auto pair = run_link(unknown_pair(), here, there, options());
  ASSERT_TRUE(pair);
  EXPECT_EQ(pair->outcome, PairOutcome::host);
  EXPECT_FALSE(pair->error);
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

PairSide side_of(const std::vector<std::string>& nics, FakeAgent::Answer answer,
                 std::vector<FakeAgent*>* started = nullptr) {
  PairSide side;
  for (const std::string& name : nics) side.plan.nics.push_back({.name = name});
  side.plan.memories.push_back({.label = "host", .near = nics.front()});
  side.start = [answer = std::move(answer),
                started](const PlanMemory&) -> Outcome<std::unique_ptr<Agent>> {
    auto agent = std::make_unique<FakeAgent>(answer);
    if (started != nullptr) started->push_back(agent.get());
    return std::unique_ptr<Agent>(std::move(agent));
  };
  return side;
}

LinkPairs run(PairSide& here, PairSide& there) {
  LinkRunner runner(here, there, {}, nullptr);
  EXPECT_TRUE(runner.run());
  return runner.pairs();
}

/// An agent that hangs when it connects with the NIC `nic`.
FakeAgent::Answer hangs_with(const std::string& nic) {
  return [nic, hangs = false](const Json& command) mutable {
    const std::string what = command.is_object() ? command.value("do", "") : "open";
    if (what == "nic") hangs = command.value("nic", "") == nic;
    if (what == "connect" && hangs) return Heard{.kind = Heard::Kind::silent};
    return good_answer(command);
  };
}

TEST(Links, OpenAMemoryOnceForAllPairs) {
  std::vector<FakeAgent*> started;
  PairSide here = side_of(
      {"a", "b"}, [](const Json& c) { return good_answer(c); }, &started);
  PairSide there = side_of({"c", "d", "e"}, [](const Json& c) { return good_answer(c); });
  const LinkPairs pairs = run(here, there);
  EXPECT_EQ(pairs.nics.size(), 6U);
  EXPECT_EQ(pairs.memories.size(), 1U);
  EXPECT_EQ(started.size(), 1U);
}

TEST(Links, RunAPairOfBothTablesOnce) {
  std::vector<FakeAgent*> started;
  PairSide here = side_of(
      {"a"}, [](const Json& c) { return good_answer(c); }, &started);
  PairSide there = side_of({"b"}, [](const Json& c) { return good_answer(c); });
  std::size_t moves = 0;
  here.start = [&](const PlanMemory&) -> Outcome<std::unique_ptr<Agent>> {
    return std::unique_ptr<Agent>(std::make_unique<FakeAgent>([&](const Json& command) {
      if (command.is_object() && command.value("do", "") == "nic") ++moves;
      return good_answer(command);
    }));
  };
  const LinkPairs pairs = run(here, there);
  EXPECT_EQ(moves, 1U);
  ASSERT_EQ(pairs.memories.size(), 1U);
  EXPECT_EQ(pairs.memories.front().latency_ns, pairs.nics.front().latency_ns);
}

TEST(Links, LeaveAloneANicThatHasHungTwice) {
  PairSide here = side_of({"x", "b", "c"}, hangs_with("x"));
  PairSide there = side_of({"y", "z", "w"}, [](const Json& c) { return good_answer(c); });
  const LinkPairs pairs = run(here, there);
  ASSERT_EQ(pairs.nics.size(), 9U);
  for (const LinkPair& pair : pairs.nics) {
    // A NIC that hangs is no fault of the memory, so the other NICs are tried.
    EXPECT_EQ(pair.works(), pair.here.nic != "x") << pair.here.nic << " " << pair.there.nic;
  }
  EXPECT_EQ(pairs.nics[1].error->code, "timed out");
  EXPECT_EQ(pairs.nics[2].outcome, PairOutcome::untried);
}

TEST(Links, LeaveAloneAMemoryThatHangsWithTwoNics) {
  std::vector<FakeAgent*> started;
  PairSide here = side_of({"a"}, [](const Json& c) { return good_answer(c); });
  const auto hangs = [](const Json& command) {
    if (command.is_object() && command.value("do", "") == "connect")
      return Heard{.kind = Heard::Kind::silent};
    return good_answer(command);
  };
  PairSide there = side_of({"c", "d", "e", "f"}, hangs, &started);
  const LinkPairs pairs = run(here, there);
  EXPECT_EQ(started.size(), 2U);
  for (const LinkPair& pair : pairs.nics) EXPECT_FALSE(pair.works());
}

TEST(Links, KeepResultsFromBeforeTheOtherDoctorWasLost) {
  PairSide here = side_of({"a"}, [](const Json& c) { return good_answer(c); });
  PairSide there = side_of({"c", "d"}, [](const Json& c) { return good_answer(c); });
  int pairs_begun = 0;
  here.start = [&](const PlanMemory&) -> Outcome<std::unique_ptr<Agent>> {
    return std::unique_ptr<Agent>(std::make_unique<FakeAgent>([&](const Json& command) {
      if (command.is_object() && command.value("do", "") == "nic" && ++pairs_begun == 2)
        return Heard{.kind = Heard::Kind::interrupted};
      return good_answer(command);
    }));
  };
  LinkRunner runner(here, there, {}, nullptr);
  EXPECT_FALSE(runner.run());
  EXPECT_EQ(runner.pairs().nics.size(), 1U);
}

TEST(Links, TellWhyAMemoryCannotBeHad) {
  PairSide here = side_of({"a"}, [](const Json& c) { return good_answer(c); });
  PairSide there = side_of({"c"}, [](const Json&) {
    Json answer = error_json("open", "gaudi_busy");
    answer["error"]["code"] = to_string(Errc::busy);
    return value_of(answer);
  });
  const LinkPairs pairs = run(here, there);
  EXPECT_EQ(pairs.nics.front().outcome, PairOutcome::untried);
  EXPECT_EQ(pairs.nics.front().side, Side::there);
  EXPECT_EQ(pairs.nics.front().error->hint, "gaudi_busy");
}

TEST(Plans, ForeignPlansAreBounded) {
  Json nics = Json::array();
  for (int i = 0; i < 256; ++i) nics.push_back({{"name", std::string(5000, '\x1b')}});
  const auto plan = plan_from_json({{"nics", nics}, {"memories", nics}, {"memcpy", "x"}});
  ASSERT_TRUE(plan);
  for (const PlanNic& nic : plan->nics) {
    EXPECT_LE(nic.name.size(), 128U);
    EXPECT_THAT(nic.name, testing::Not(HasSubstr("\x1b")));
  }
  nics.push_back({{"name", "one more"}});
  EXPECT_FALSE(plan_from_json({{"nics", nics}, {"memories", Json::array()}}));
  for (const Json& strange : {Json(5), Json("x"), Json(), Json::array({1, nullptr, "x"}),
                              Json{{"nics", 5}, {"memories", {{"a", 1}}}}}) {
    EXPECT_FALSE(plan_from_json(strange)) << strange;
  }
  const auto odd = plan_from_json(
      {{"nics", {1, nullptr, {{"name", 7}}}}, {"memories", {{{"type", 99}, {"label", 1}}}}});
  ASSERT_TRUE(odd);
  EXPECT_EQ(odd->nics.size(), 3U);
}

TEST(Plans, AnEndedProcessIsAnErrorInsteadOfAPlan) {
  FakeAgent agent([](const Json&) { return Heard{.kind = Heard::Kind::ended}; });
  const auto plan = plan_of(agent, {.whose = "node2"});
  ASSERT_FALSE(plan);
  EXPECT_THAT(plan.error().text, HasSubstr("signal 11"));
  EXPECT_THAT(plan.error().text, HasSubstr("node2"));
}

}  // namespace
}  // namespace hbmwire::tools::doctor
