// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string>

#include "tests/nic/endpoint.hpp"

/// A fault plan is read once in a process, so each test here runs its body in a fresh one: this
/// program again.
namespace hbmwire::test {
namespace {

/// True in a process that runs under `plan`. Any other runs the current test in one, and is done
/// with it.
bool under_plan(const char* plan) {
  constexpr const char* kVariable = "HBMWIRE_EMULATION_FAULTS";
  const char* present = std::getenv(kVariable);
  if (present != nullptr && std::string(present) == plan) return true;
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  const std::string filter =
      std::string("--gtest_filter=") + test->test_suite_name() + "." + test->name();
  // The rules' counters belong to the fabric, and a rule acts once: a second run begins anew.
  const char* fabric = std::getenv("HBMWIRE_EMULATION_FABRIC");
  ::unlink((std::string(fabric == nullptr ? "" : fabric) + "/faults").c_str());
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv(kVariable, plan, 1);
    ::execl("/proc/self/exe", "nic_test", "--gtest_brief=1", filter.c_str(),
            static_cast<char*>(nullptr));
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  return false;
}

std::ptrdiff_t differing_bits(const Endpoint& a, const Endpoint& b, std::size_t length) {
  std::ptrdiff_t bits = 0;
  for (std::size_t i = 0; i < length; ++i) bits += __builtin_popcount(a.buffer[i] ^ b.buffer[i]);
  return bits;
}

/// The second message of 1000 bytes has bit 0 of byte 100 flipped where it arrives, and nothing
/// else is changed.
void expect_second_flipped(Pair& pair, Endpoint& source, Endpoint& target, ibv_wr_opcode opcode) {
  source.buffer.assign(source.buffer.size(), 0x10);
  for (int round = 1; round <= 3; ++round) {
    target.buffer.assign(target.buffer.size(), 0);
    if (opcode == IBV_WR_SEND) {
      ASSERT_EQ(pair.b.post_recv(2, 0, 1000), 0);
      ASSERT_EQ(pair.a.send(1, 0, 1000), 0);
      expect_completion(pair.b, 2);
    } else {
      ASSERT_EQ(pair.a.rdma(opcode, 1, 0, 1000, pair.b.address()), 0);
    }
    expect_completion(pair.a, 1);
    EXPECT_EQ(differing_bits(source, target, 1000), round == 2 ? 1 : 0) << "message " << round;
    EXPECT_EQ(target.buffer[100], round == 2 ? 0x11 : 0x10);
    EXPECT_EQ(std::count(source.buffer.begin(), source.buffer.end(), 0x10), 65536)
        << "the source stays";
  }
}

TEST(FaultPlan, FlipsABitOfTheNthSend) {
  if (!under_plan("flip,op=send,nth=2,byte=2100")) return;
  Pair pair;
  expect_second_flipped(pair, pair.a, pair.b, IBV_WR_SEND);
}

TEST(FaultPlan, FlipsABitOfTheNthWrite) {
  if (!under_plan("flip,op=write,nth=2,byte=100")) return;
  Pair pair;
  expect_second_flipped(pair, pair.a, pair.b, IBV_WR_RDMA_WRITE);
}

TEST(FaultPlan, FlipsABitOfTheNthRead) {
  if (!under_plan("flip,op=read,nth=2,byte=100")) return;
  Pair pair;
  expect_second_flipped(pair, pair.b, pair.a, IBV_WR_RDMA_READ);
}

TEST(FaultPlan, FailsTheNthCallOnce) {
  if (!under_plan("fail,call=ibv_reg_mr,nth=2,errno=12")) return;
  Endpoint first;  // with a registration of its own
  EXPECT_EQ((ibv_reg_mr)(first.pd.get(), first.buffer.data(), 8, 0), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_NE(Mr((ibv_reg_mr)(first.pd.get(), first.buffer.data(), 8, 0)), nullptr);
}

}  // namespace
}  // namespace hbmwire::test
