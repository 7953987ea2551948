// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string_view>

#include "emulation/tests/conformance/conformance.hpp"
#include "emulation/tests/conformance/source.hpp"

namespace hbmwire::conformance {

std::string& current_source() {
  static std::string the_source;
  return the_source;
}

void source(std::string text) { current_source() = std::move(text); }

namespace {

constexpr const char* kUsage =
    "usage: hbmwire_verbs_conformance [--device NAME] [--port N] [--gid-index N]\n"
    "       [--ack-timeout N] [--as-rxe] [--no-skips]\n"
    "  --device NAME   the device under test; else HBMWIRE_TEST_DEVICE, else the first\n"
    "  --port N        its port (1)\n"
    "  --gid-index N   entry of the port's GID table (RoCE v2 over IPv4 first)\n"
    "  --ack-timeout N how long a lost packet is waited for, 4.096 us * 2^N: for slow devices "
    "(10)\n"
    "  --as-rxe        the device is Linux' rxe: where outcome_table.cpp says that it differs, it "
    "must\n"
    "  --no-skips      a skipped case makes the run fail\n"
    "and GoogleTest's own options, among them --gtest_filter=SUITE.CASE\n";

/// Prints the source of its expectation after a failed case, and the skipped cases at the end.
class Reporter : public testing::EmptyTestEventListener {
 public:
  void OnTestStart(const testing::TestInfo& /*info*/) override { current_source().clear(); }

  void OnTestEnd(const testing::TestInfo& info) override {
    const testing::TestResult& result = *info.result();
    if (result.Failed())
      std::printf("source of the expectation: %s\n",
                  current_source().empty() ? "(none named)" : current_source().c_str());
    if (!result.Skipped()) return;
    for (int part = 0; part < result.total_part_count(); ++part)
      if (result.GetTestPartResult(part).skipped())
        ++skipped_[result.GetTestPartResult(part).message()];
  }

  void OnTestProgramEnd(const testing::UnitTest& /*test*/) override {
    for (const auto& [reason, count] : skipped_)
      std::printf("skipped %d: %s\n", count, reason.c_str());
  }

  [[nodiscard]] bool skipped_any() const { return !skipped_.empty(); }

 private:
  std::map<std::string, int> skipped_;
};

/// The value of `name VALUE` or `name=VALUE` at argv[at], or null. Advances `at` past it.
const char* value_of(const char* name, int argc, char** argv, int& at) {
  const std::size_t length = std::strlen(name);
  if (std::strncmp(argv[at], name, length) != 0) return nullptr;
  if (argv[at][length] == '=') return argv[at] + length + 1;
  if (argv[at][length] != '\0' || at + 1 >= argc) return nullptr;
  return argv[++at];
}

bool read_number(const char* text, int most, int& number) {
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, number);
  return error == std::errc() && stop == end && number >= 0 && number <= most;
}

bool read_arguments(int argc, char** argv, bool& no_skips) {
  if (const char* name = std::getenv("HBMWIRE_TEST_DEVICE")) settings().device = name;
  for (int at = 1; at < argc; ++at) {
    int number = 0;
    if (const char* device = value_of("--device", argc, argv, at)) {
      settings().device = device;
    } else if (const char* port = value_of("--port", argc, argv, at)) {
      if (!read_number(port, 255, number)) return false;
      settings().port = static_cast<std::uint8_t>(number);
    } else if (const char* index = value_of("--gid-index", argc, argv, at)) {
      if (!read_number(index, 255, settings().gid_index)) return false;
    } else if (const char* timeout = value_of("--ack-timeout", argc, argv, at)) {
      if (!read_number(timeout, 31, number)) return false;
      settings().ack_timeout = static_cast<std::uint8_t>(number);
    } else if (std::string_view(argv[at]) == "--no-skips") {
      no_skips = true;
    } else if (std::string_view(argv[at]) == "--as-rxe") {
      settings().as_rxe = true;
    } else {
      return false;
    }
  }
  return true;
}

extern "C" void give_up(int /*signal*/) {
  constexpr std::string_view kSentence =
      "\nA verb did not return, or a wait did not end: the case that is running hung.\n";
  [[maybe_unused]] const ssize_t written =
      ::write(STDERR_FILENO, kSentence.data(), kSentence.size());
  ::_exit(3);
}

}  // namespace
}  // namespace hbmwire::conformance

int main(int argc, char** argv) {
  using namespace hbmwire::conformance;
  testing::InitGoogleTest(&argc, argv);
  bool no_skips = false;
  if (!read_arguments(argc, argv, no_skips)) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  std::signal(SIGALRM, give_up);
  auto* reporter = new Reporter;  // GoogleTest owns it
  testing::UnitTest::GetInstance()->listeners().Append(reporter);
  const int failed = RUN_ALL_TESTS();
  return failed != 0 ? failed : (no_skips && reporter->skipped_any() ? 1 : 0);
}
