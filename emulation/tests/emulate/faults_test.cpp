// SPDX-License-Identifier: MIT
#include "emulation/common/faults.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <random>

#include "emulation/common/world.hpp"

namespace hbmwire::emulation {
namespace {

using ::testing::HasSubstr;

std::vector<FaultRule> parsed(std::string_view text) {
  std::vector<FaultRule> rules;
  std::string error;
  EXPECT_TRUE(parse_fault_plan(text, rules, error)) << error;
  return rules;
}

std::string refusal(std::string_view text) {
  std::vector<FaultRule> rules(1);  // which a failed parse must clear
  std::string error;
  EXPECT_FALSE(parse_fault_plan(text, rules, error)) << text;
  EXPECT_TRUE(rules.empty()) << text;
  return error;
}

TEST(FaultPlanParser, ReadsActionsPointsAndSettings) {
  const auto flips = parsed("flip,op=write,nth=1,byte=100;flip,op=send,nth=2,node=b");
  ASSERT_EQ(flips.size(), 2U);
  EXPECT_EQ(flips[0], (FaultRule{.subject = "write", .node = {}, .nth = 1, .byte = 100}));
  EXPECT_EQ(flips[1], (FaultRule{.subject = "send", .node = "b", .nth = 2}));
  const auto fails = parsed("fail,call=ibv_reg_dmabuf_mr,nth=1,errno=12");
  ASSERT_EQ(fails.size(), 1U);
  EXPECT_EQ(fails[0], (FaultRule{.action = FaultRule::Action::fail,
                                 .point = FaultRule::Point::call,
                                 .subject = "ibv_reg_dmabuf_mr",
                                 .node = {},
                                 .error_number = 12}));
}

using Action = FaultRule::Action;
using Point = FaultRule::Point;

FaultRule rule_of(Action action, Point point, std::string subject, std::uint64_t time_ns = 0) {
  FaultRule rule;
  rule.action = action;
  rule.point = point;
  rule.subject = std::move(subject);
  rule.time_ns = time_ns;
  return rule;
}

TEST(FaultPlanParser, KnowsEveryAction) {
  constexpr std::uint64_t kMs = 1'000'000;
  const std::pair<const char*, FaultRule> cases[] = {
      {"fail,op=read", rule_of(Action::fail, Point::operation, "read")},
      {"drop", rule_of(Action::drop, Point::operation, "")},
      {"drop,op=atomic", rule_of(Action::drop, Point::operation, "atomic")},
      {"delay,op=read,ms=20", rule_of(Action::delay, Point::operation, "read", 20 * kMs)},
      {"delay,us=7", rule_of(Action::delay, Point::operation, "", 7000)},
      {"late,op=send,ms=200", rule_of(Action::late, Point::operation, "send", 200 * kMs)},
      {"revoke,op=write", rule_of(Action::revoke, Point::operation, "write")},
      {"revoke,call=ibv_reg_mr", rule_of(Action::revoke, Point::call, "ibv_reg_mr")},
      {"link,op=write,for=500", rule_of(Action::link, Point::operation, "write", 500 * kMs)},
      {"link,call=f", rule_of(Action::link, Point::call, "f")},
      {"kill,op=write", rule_of(Action::kill, Point::operation, "write")},
      {"kill,call=f", rule_of(Action::kill, Point::call, "f")},
      {"kill,at=moved", rule_of(Action::kill, Point::step, "moved")},
      {"stop,at=post,for=300", rule_of(Action::stop, Point::step, "post", 300 * kMs)},
      {"stop,op=send", rule_of(Action::stop, Point::operation, "send")},
  };
  for (const auto& [text, expected] : cases) {
    const auto rules = parsed(text);
    ASSERT_EQ(rules.size(), 1U) << text;
    EXPECT_EQ(rules[0], expected) << text;
  }
  FaultRule limit = rule_of(Action::limit, Point::creation, "mr");
  limit.count = 100;
  limit.node = "b";
  EXPECT_EQ(parsed("limit,object=mr,count=100,node=b"), std::vector{limit});
}

TEST(FaultPlanParser, KnowsEveryCondition) {
  FaultRule rule = rule_of(Action::drop, Point::operation, "");
  rule.nth = 3;
  rule.every = 4;
  rule.count = 5;
  rule.chance = FaultRule::kCertain / 100;
  rule.seed = 7;
  EXPECT_EQ(parsed("seed=7;drop,nth=3,every=4,count=5,p=0.01"), std::vector{rule});
  EXPECT_EQ(parsed("seed = 8; drop,nth=3,every=4,count=5,p=0.010000000;seed=7"), std::vector{rule})
      << "the last of two seeds counts";
  EXPECT_EQ(parsed("drop")[0].seed, 1U);
  EXPECT_EQ(parsed("drop,p=1")[0].chance, FaultRule::kCertain);
  EXPECT_EQ(parsed("drop,p=.000000001")[0].chance, 1U);
}

TEST(FaultPlanParser, AllowsBlanksAndEmptyRules) {
  EXPECT_TRUE(parsed("").empty());
  EXPECT_TRUE(parsed(" ; \n;").empty());
  EXPECT_EQ(parsed(" flip , op = read ;\n fail,call=x ; ").size(), 2U);
}

TEST(FaultPlanParser, NamesTheWrongPart) {
  EXPECT_THAT(refusal("flip;flop"),
              HasSubstr("rule 2 ('flop'): action 'flop' is not fail, flip, drop"));
  EXPECT_THAT(refusal("flip,nth=0"), HasSubstr("'nth=0' is not a number from 1"));
  EXPECT_THAT(refusal("flip,nth=-1"), HasSubstr("is not a number"));
  EXPECT_THAT(refusal("flip,nth=18446744073709551616"), HasSubstr("is not a number"));
  EXPECT_THAT(refusal("flip,byte=1x"), HasSubstr("is not a number"));
  EXPECT_THAT(refusal("flip,op=atomic"), HasSubstr("is not send, write or read"));
  EXPECT_THAT(refusal("flip,call=x"),
              HasSubstr("is not a setting of 'flip' (op, byte, node, nth, every, count or p)"));
  EXPECT_THAT(refusal("fail,call=x,byte=1"), HasSubstr("is not a setting of 'fail'"));
  EXPECT_THAT(refusal("fail,nth=2"),
              HasSubstr("'fail' needs op or call, for example fail,call=ibv_reg_dmabuf_mr"));
  EXPECT_THAT(refusal("fail,call=x,errno=0"), HasSubstr("from 1 to 4095"));
  EXPECT_THAT(refusal("fail,call=x,errno=4096"), HasSubstr("from 1 to 4095"));
  EXPECT_THAT(refusal("fail,call=a b"), HasSubstr("is not the name of a function"));
  EXPECT_THAT(refusal("flip,node=a/b"), HasSubstr("is not a node name"));
  EXPECT_THAT(refusal("drop,byte=1"), HasSubstr("is not a setting of 'drop' (op, node, nth,"));
  EXPECT_THAT(refusal("drop,op=bind"), HasSubstr("is not send, write, read or atomic"));
  EXPECT_THAT(refusal("delay,op=send"), HasSubstr("'delay' needs ms or us, for example delay,op"));
  EXPECT_THAT(refusal("late,ms=1,us=1"), HasSubstr("'late' takes only one of ms or us"));
  EXPECT_THAT(refusal("delay,ms=0"), HasSubstr("is not a number from 1 to 3600000"));
  EXPECT_THAT(refusal("delay,us=3600000001"), HasSubstr("is not a number from 1 to 3600000000"));
  EXPECT_THAT(refusal("revoke"), HasSubstr("'revoke' needs op or call"));
  EXPECT_THAT(refusal("revoke,call=ibv_create_qp"), HasSubstr("is not ibv_reg_mr or ibv_reg_d"));
  EXPECT_THAT(refusal("limit,object=mr"), HasSubstr("'limit' needs count"));
  EXPECT_THAT(refusal("limit,count=1"), HasSubstr("'limit' needs object"));
  EXPECT_THAT(refusal("limit,object=cable,count=1"),
              HasSubstr("is not mr, mw, qp, cq, pd, srq or"));
  EXPECT_THAT(refusal("limit,object=mr,count=1,nth=2"), HasSubstr("is not a setting of 'limit'"));
  EXPECT_THAT(refusal("link,for=5"), HasSubstr("'link' needs op or call"));
  EXPECT_THAT(refusal("kill"), HasSubstr("'kill' needs op, call or at"));
  EXPECT_THAT(refusal("kill,op=send,at=post"), HasSubstr("takes only one of op, call or at"));
  EXPECT_THAT(refusal("kill,op=send,for=5"), HasSubstr("is not a setting of 'kill'"));
  EXPECT_THAT(refusal("stop,at=noon"), HasSubstr("is not post, located, responder_locked"));
  EXPECT_THAT(refusal("drop,every=0"), HasSubstr("is not a number from 1"));
  EXPECT_THAT(refusal("drop,count=0"), HasSubstr("is not a number from 1"));
  for (const char* p : {"0", "1.1", "2", "0.0000000001", "1e-3", "-0.5", ".", "0.5.5", ""}) {
    EXPECT_THAT(refusal(std::string("drop,p=") + p), HasSubstr("is not a probability from 0.0"))
        << p;
  }
  EXPECT_THAT(refusal("drop;seed=x"), HasSubstr("rule 2 ('seed=x'): seed is not a number"));
  EXPECT_THAT(refusal("seed"), HasSubstr("action 'seed' is not fail, flip"));
  EXPECT_THAT(refusal("flip,nth=1,nth=2"), HasSubstr("'nth' is given twice"));
  EXPECT_THAT(refusal("flip,"), HasSubstr("is not of the form key=value"));
  EXPECT_THAT(refusal("flip,nth"), HasSubstr("'nth' is not of the form key=value"));
  std::string many;
  for (int i = 0; i < 65; ++i) many += "flip;";
  EXPECT_THAT(refusal(many), HasSubstr("more than 64 rules"));
}

// For pieces of the grammar in any order, and for any bytes, the parser returns either rules or a
// sentence, never both.
TEST(FaultPlanParser, AcceptsOrExplainsAnyText) {
  constexpr const char* kPieces[] = {
      "flip",      "fail", "drop", "late",  "kill",  "limit", "p",      "0.5",
      "at",        "post", "seed", "every", "count", "ms",    "object", "mr",
      ",",         ";",    "=",    "op",    "call",  "nth",   "byte",   "errno",
      "node",      "send", "1",    "0",     "-",     " ",     "\n",     "99999999999999999999",
      "ibv_reg_mr"};
  std::mt19937 random(20240731);
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (auto pieces = random() % 12; pieces > 0; --pieces) {
      if (random() % 20 == 0) text += static_cast<char>(random() % 256);
      text += kPieces[random() % std::size(kPieces)];
    }
    std::vector<FaultRule> rules;
    std::string error;
    const bool good = parse_fault_plan(text, rules, error);
    ASSERT_EQ(good, error.empty()) << text;
    ASSERT_TRUE(good || rules.empty()) << text;
    accepted += good ? 1 : 0;
    for (const auto& rule : rules) {
      ASSERT_GE(rule.nth, 1U);
      ASSERT_GE(rule.error_number, 1);
    }
  }
  EXPECT_GT(accepted, 100);
}

/// A process keeps its plan, so each case runs in a new process.
class FaultPlanOfAProcess : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = "/tmp/faults-test-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    fabric_ = name;
  }

  void TearDown() override { std::filesystem::remove_all(fabric_); }

  /// Runs `body` in a new process of `node` under `plan`. Returns its result, or -1 after a signal.
  template <class Body>
  int in_process(const char* plan, const char* node, Body body) const {
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::setenv(kFabricVariable, fabric_.c_str(), 1);
      ::setenv(kNodeVariable, (fabric_ / "nodes" / node).c_str(), 1);
      ::setenv(kFaultsVariable, plan, 1);
      ::_exit(body(FaultPlan::of_this_process()));
    }
    int status = 0;
    ::waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  std::filesystem::path fabric_;
};

// Makes `count` operations, at most up to the first one that is flipped. Returns the number of that
// one, from 1; 0 if none is flipped.
int first_flip(FaultPlan& plan, const char* op, int count) {
  for (int i = 1; i <= count; ++i) {
    if (plan.on_operation(op).flip) return i;
  }
  return 0;
}

TEST_F(FaultPlanOfAProcess, CountsOverTheFabricAndActsOnce) {
  constexpr const char* kPlan = "flip,op=write,nth=5,byte=7";
  const auto three_writes = [](FaultPlan& plan) { return first_flip(plan, "write", 3); };
  EXPECT_EQ(in_process(kPlan, "a", three_writes), 0);
  EXPECT_EQ(in_process(kPlan, "b", three_writes), 2);
  EXPECT_EQ(in_process(kPlan, "a", three_writes), 0);
}

TEST_F(FaultPlanOfAProcess, NamesTheByteAndLeavesOtherOperationsAlone) {
  EXPECT_EQ(in_process("flip,op=read,nth=1,byte=42", "a",
                       [](FaultPlan& plan) {
                         if (plan.on_operation("write").flip) return 1;
                         if (plan.on_operation("send").flip) return 2;
                         const OperationFaults faults = plan.on_operation("read");
                         return faults.flip && faults.flip_byte == 42 ? 0 : 3;
                       }),
            0);
}

TEST_F(FaultPlanOfAProcess, CountsOnlyTheNamedNode) {
  constexpr const char* kPlan = "flip,node=b,nth=2";
  const auto two = [](FaultPlan& plan) { return first_flip(plan, "send", 2); };
  EXPECT_EQ(in_process(kPlan, "a", two), 0);
  EXPECT_EQ(in_process(kPlan, "b", two), 2);
}

TEST_F(FaultPlanOfAProcess, CountsTheSameRuleOfDifferentPlansTogether) {
  const auto one = [](FaultPlan& plan) { return first_flip(plan, "send", 1); };
  EXPECT_EQ(in_process("flip,nth=2", "a", one), 0);
  // The second rule goes on where the first plan's left off.
  EXPECT_EQ(in_process("flip,nth=2,byte=1;flip,nth=2", "a", one), 1);
}

TEST_F(FaultPlanOfAProcess, TreatsARepeatedRuleAsASecondOne) {
  EXPECT_EQ(in_process("fail,call=f,nth=2;fail,call=f,nth=3", "a",
                       [](FaultPlan& plan) {
                         std::string calls;
                         for (int i = 0; i < 4; ++i) calls += plan.fails("f") != 0 ? 'x' : '.';
                         return calls == ".xx." ? 0 : 1;
                       }),
            0);
}

/// The result of each of `count` sends: 'x' for a dropped one.
std::string drops(FaultPlan& plan, int count) {
  std::string acts;
  for (int i = 0; i < count; ++i) acts += plan.on_operation("send").drop ? 'x' : '.';
  return acts;
}

/// The body of a process: returns 0 if its sends are dropped as `expected` says.
int sees(FaultPlan& plan, const std::string& expected) {
  return drops(plan, static_cast<int>(expected.size())) == expected ? 0 : 1;
}

TEST_F(FaultPlanOfAProcess, ActsOnEveryKthMatchFromTheNthOn) {
  const std::pair<const char*, const char*> cases[] = {
      {"drop", "x....."},
      {"drop,nth=3", "..x..."},
      {"drop,every=2", "x.x.x."},
      {"drop,nth=2,every=3,count=2", ".x..x....."},
      {"drop,nth=2,count=3", ".xxx...."},
      {"drop,p=1", "xxxx"},
      {"drop,p=1,count=2,nth=2", ".xx.."},
  };
  for (const auto& [plan, expected] : cases) {
    const std::string wanted = expected;
    EXPECT_EQ(in_process(plan, "a", [&](FaultPlan& of) { return sees(of, wanted); }), 0) << plan;
  }
}

// The same faults come in every run, whichever process has the match; only the seed changes them.
TEST_F(FaultPlanOfAProcess, RepeatsRandomFaults) {
  constexpr int kSends = 400;
  const auto run = [&](const std::string& plan) {
    std::filesystem::remove(fabric_ / "faults");
    std::string all;
    for (int process = 0; process < 2; ++process) {
      int ends[2];
      EXPECT_EQ(::pipe(ends), 0);
      in_process(plan.c_str(), "a", [&](FaultPlan& of) {
        const std::string seen = drops(of, kSends / 2);
        return ::write(ends[1], seen.data(), seen.size()) == kSends / 2 ? 0 : 1;
      });
      std::string part(kSends / 2, ' ');
      EXPECT_EQ(::read(ends[0], part.data(), part.size()), kSends / 2);
      ::close(ends[0]);
      ::close(ends[1]);
      all += part;
    }
    return all;
  };
  const std::string first = run("seed=5;drop,p=0.25");
  EXPECT_EQ(run("seed=5;drop,p=0.25"), first);
  EXPECT_NE(run("seed=6;drop,p=0.25"), first);
  EXPECT_NEAR(static_cast<double>(std::ranges::count(first, 'x')), kSends * 0.25, 40)
      << "over four standard deviations from the mean; the seed fixes the number";
  std::string few = run("seed=5;drop,p=0.25,count=3");
  EXPECT_EQ(std::ranges::count(few, 'x'), 3);
}

TEST_F(FaultPlanOfAProcess, DecidesTheResultOfAnOperation) {
  EXPECT_EQ(in_process("delay,op=read,ms=2;delay,us=5;late,op=read,us=9;drop,op=read;"
                       "revoke,op=read;link,op=read,for=3",
                       "a",
                       [](FaultPlan& plan) {
                         const OperationFaults expected{.flip = false,
                                                        .flip_byte = 0,
                                                        .drop = true,
                                                        .delay_ns = 2'005'000,
                                                        .late_ns = 9'000,
                                                        .revoke = true,
                                                        .link = {true, 3'000'000}};
                         if (!FaultPlan::plans(FaultRule::Point::operation)) return 1;
                         if (FaultPlan::plans(FaultRule::Point::step)) return 2;
                         return plan.on_operation("read") == expected &&
                                        plan.on_operation("read") == OperationFaults{}
                                    ? 0
                                    : 3;
                       }),
            0);
}

TEST_F(FaultPlanOfAProcess, DecidesTheResultOfACall) {
  EXPECT_EQ(in_process("fail,call=f,errno=12;link,call=f;revoke,call=ibv_reg_mr", "a",
                       [](FaultPlan& plan) {
                         const CallFaults f = plan.on_call("f");
                         if (f.error_number != 12 || !f.link.down || f.revoke) return 1;
                         const CallFaults g = plan.on_data_path_call("ibv_reg_mr");
                         return g.revoke && g.error_number == 0 && !g.link.down ? 0 : 2;
                       }),
            0);
}

TEST_F(FaultPlanOfAProcess, LimitsByTheSmallestRuleOfItsNode) {
  EXPECT_EQ(in_process("limit,object=mr,count=9;limit,object=mr,count=4;"
                       "limit,object=mr,count=1,node=b",
                       "a",
                       [](FaultPlan& plan) {
                         return plan.limit_of("mr") == 4 && plan.limit_of("qp") == UINT64_MAX ? 0
                                                                                              : 1;
                       }),
            0);
}

TEST_F(FaultPlanOfAProcess, FailsTheNthCallOfASweep) {
  EXPECT_EQ(in_process("", "a",
                       [](FaultPlan& plan) {
                         if (!plan.empty()) return 1;
                         plan.fail_nth_call(2, 12);  // the third call from now, with ENOMEM
                         if (plan.fails("a") != 0 || plan.fails("b") != 0) return 2;
                         if (plan.fails("c") != 12 || plan.fails("d") != 0) return 3;
                         if (plan.fail_nth_call(-1, 0) != 4) return 4;
                         return plan.fails("e") == 0 ? 0 : 5;
                       }),
            0);
}

TEST_F(FaultPlanOfAProcess, NeverActsOutsideAWorld) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::unsetenv(kFabricVariable);
    ::setenv(kFaultsVariable, "flip,nth=1", 1);
    ::_exit(FaultPlan::of_this_process().empty() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace hbmwire::emulation
