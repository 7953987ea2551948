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
  std::vector<FaultRule> rules(1);
  std::string error;
  EXPECT_FALSE(parse_fault_plan(text, rules, error)) << text;
  EXPECT_TRUE(rules.empty()) << text;
  return error;
}

TEST(FaultPlanParser, ReadsTheExamplesOfTheHeader) {
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

TEST(FaultPlanParser, AllowsBlanksAndEmptyRules) {
  EXPECT_TRUE(parsed("").empty());
  EXPECT_TRUE(parsed(" ; \n;").empty());
  EXPECT_EQ(parsed(" flip , op = read ;\n fail,call=x ; ").size(), 2U);
}

TEST(FaultPlanParser, SaysWhichPartIsWrong) {
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
              HasSubstr("'fail' needs call, for example fail,call=ibv_reg_dmabuf_mr"));
  EXPECT_THAT(refusal("fail,call=x,errno=0"), HasSubstr("from 1 to 4095"));
  EXPECT_THAT(refusal("fail,call=x,errno=4096"), HasSubstr("from 1 to 4095"));
  EXPECT_THAT(refusal("fail,call=a b"), HasSubstr("is not the name of a function"));
  EXPECT_THAT(refusal("flip,node=a/b"), HasSubstr("is not a node name"));
  EXPECT_THAT(refusal("flip,nth=1,nth=2"), HasSubstr("'nth' is given twice"));
  EXPECT_THAT(refusal("flip,"), HasSubstr("is not of the form key=value"));
  EXPECT_THAT(refusal("flip,nth"), HasSubstr("'nth' is not of the form key=value"));
  std::string many;
  for (int i = 0; i < 65; ++i) many += "flip;";
  EXPECT_THAT(refusal(many), HasSubstr("more than 64 rules"));
}

// Pieces of the grammar in any order, and any bytes: either rules, or a sentence, and never both.
TEST(FaultPlanParser, AcceptsOrExplainsWhateverItIsGiven) {
  constexpr const char* kPieces[] = {
      "flip",      "fail", ",",    ";", "=", "op", "call", "nth", "byte",
      "errno",     "node", "send", "1", "0", "-",  " ",    "\n",  "99999999999999999999",
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

/// The plan belongs to a process for good, so each case of it is a process of its own.
class FaultPlanOfAProcess : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = "/tmp/faults-test-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    fabric_ = name;
  }

  void TearDown() override { std::filesystem::remove_all(fabric_); }

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

// Which of the next `count` operations is flipped, counted from 1; 0 when none is.
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

TEST_F(FaultPlanOfAProcess, KeepsTheCountersOfDifferentPlansApart) {
  const auto one = [](FaultPlan& plan) { return first_flip(plan, "send", 1); };
  EXPECT_EQ(in_process("flip,nth=2", "a", one), 0);
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

TEST_F(FaultPlanOfAProcess, FailsTheNthCallOfASweep) {
  EXPECT_EQ(in_process("", "a",
                       [](FaultPlan& plan) {
                         if (!plan.empty()) return 1;
                         plan.fail_nth_call(2, 12);
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
