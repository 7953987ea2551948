// SPDX-License-Identifier: MIT
#include "hbmwire/log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "hbmwire/settings.hpp"

#include "base/dynamic_library.hpp"
#include "base/log.hpp"

namespace hbmwire {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

/// Collects lines of the log. Leaves the process's own state unchanged, except the level.
class LogTest : public testing::Test {
 protected:
  LogTest() {
    set_log_level(LogLevel::warn);
    set_log_sink([this](LogLevel level, std::string_view line) {
      const std::scoped_lock lock(mutex_);
      lines_.push_back(std::string(to_string(level)) + " " + std::string(line));
    });
  }

  ~LogTest() override {
    set_log_sink({});
    set_log_level(LogLevel::warn);
  }

  std::mutex mutex_;
  std::vector<std::string> lines_;
};

TEST_F(LogTest, SaysNothingBelowTheLevel) {
  log_line(LogLevel::info, "a");
  log_line(LogLevel::warn, "b");
  set_log_level(LogLevel::debug);
  log_line(LogLevel::debug, "c");
  set_log_level(LogLevel::off);
  log_line(LogLevel::error, "d");
  log_line(LogLevel::off, "e");
  EXPECT_THAT(lines_, ElementsAre("warn b", "debug c"));
}

TEST_F(LogTest, WarningsNameCallAndErrnoAndLeaveErrnoAlone) {
  errno = ENOENT;
  log_warning("ibv_dereg_mr", "failed twice", EBUSY);
  log_warning("thing", "failed", 0);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_THAT(lines_, ElementsAre("warn ibv_dereg_mr failed twice: Device or resource busy (errno "
                                  "16)",
                                  "warn thing failed"));
}

TEST_F(LogTest, WithoutASinkLinesGoToStandardError) {
  set_log_sink({});
  testing::internal::CaptureStderr();
  log_line(LogLevel::warn, "a line");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "hbmwire: warn: a line\n");
  EXPECT_TRUE(lines_.empty());
}

TEST_F(LogTest, AProgramsLevelGoesBeforeThatOfSettings) {
  use_log_level(LogLevel::debug);
  EXPECT_FALSE(log_wanted(LogLevel::info));
}

TEST_F(LogTest, ASinkMayLogAndChangeTheSink) {
  set_log_sink([this](LogLevel /*level*/, std::string_view line) {
    lines_.emplace_back(line);
    if (line != "first") return;
    log_line(LogLevel::warn, "second");
    set_log_sink({});
  });
  log_line(LogLevel::warn, "first");
  EXPECT_THAT(lines_, ElementsAre("first", "second"));
}

TEST_F(LogTest, LinesOfManyThreadsAllArrive) {
  constexpr std::size_t kThreads = 4;
  constexpr std::size_t kLines = 200;
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([] {
        for (std::size_t line = 0; line < kLines; ++line) log_line(LogLevel::error, "x");
      });
    }
  }
  EXPECT_EQ(lines_.size(), kThreads * kLines);
}

TEST_F(LogTest, DebugTellsWhichLibrariesWereTried) {
  set_log_level(LogLevel::debug);
  const auto missing =
      DynamicLibrary::open({"libnobody-has-this.so", "/nowhere/libx.so"}, Hint::none);
  EXPECT_FALSE(missing);
  const auto found = DynamicLibrary::open({"libm.so.6"}, Hint::none);
  EXPECT_TRUE(found);
  EXPECT_THAT(lines_, Contains(AllOf(HasSubstr("debug dlopen libnobody-has-this.so: "),
                                     HasSubstr("No such file"))));
  EXPECT_THAT(lines_, Contains(HasSubstr("debug dlopen /nowhere/libx.so: ")));
  EXPECT_THAT(lines_, Contains(AllOf(HasSubstr("debug dlopen libm.so.6: loaded /"),
                                     HasSubstr("/libm.so.6"))));
}

}  // namespace
}  // namespace hbmwire
