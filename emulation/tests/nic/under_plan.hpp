// SPDX-License-Identifier: MIT
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

/// Tests under a fault plan. A process reads the plan only once, so each such test runs this
/// program again for its body.
namespace hbmwire::test {

inline constexpr const char* kPlanVariable = "HBMWIRE_EMULATION_FAULTS";

/// Whether this process was started under `plan`.
inline bool is_under_plan(const std::string& plan) {
  const char* present = std::getenv(kPlanVariable);
  return present != nullptr && present == plan;
}

/// Starts this program again under `plan`, for the current test only.
inline pid_t start_under(const std::string& plan) {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  const std::string filter =
      std::string("--gtest_filter=") + test->test_suite_name() + "." + test->name();
  // The rules' counters belong to the fabric. They are removed, so a second run of a test starts
  // from zero.
  const char* fabric = std::getenv("HBMWIRE_EMULATION_FABRIC");
  ::unlink((std::string(fabric == nullptr ? "" : fabric) + "/faults").c_str());
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv(kPlanVariable, plan.c_str(), 1);
    ::execl("/proc/self/exe", "nic_test", "--gtest_brief=1", filter.c_str(),
            static_cast<char*>(nullptr));
    ::_exit(127);
  }
  return child;
}

/// Waits for the end of `child`. Returns its status as waitpid(2) does: 0 for success, or the
/// number of the signal that ended it.
inline int status_of(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

/// Returns true in a process that runs under `plan`. In any other process it runs the current test
/// in a new one and returns false.
inline bool under_plan(const std::string& plan) {
  if (is_under_plan(plan)) return true;
  EXPECT_EQ(status_of(start_under(plan)), 0);
  return false;
}

}  // namespace hbmwire::test
