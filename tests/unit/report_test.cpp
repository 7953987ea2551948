// SPDX-License-Identifier: MIT
#include "tools/common/report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hbmwire::tools {
namespace {

using testing::HasSubstr;

wire::Verdict verdict(const char* operation, std::uint32_t iteration, std::uint64_t wrong) {
  return {.operation = operation,
          .iteration = iteration,
          .bytes = 4096,
          .wrong_bytes = wrong,
          .offset_bytes = 100,
          .expected = 0x4e,
          .got = 0x4f};
}

TEST(ToolReport, VerifiesNothingWhenNothingWasCompared) {
  Report report;
  EXPECT_FALSE(report.verified());
  EXPECT_THAT(report.wrong_text(), HasSubstr("nothing was compared"));
}

TEST(ToolReport, NeedsAVerdictOnEachOperation) {
  Report report;
  report.add(verdict(kSend, 1, 0));
  EXPECT_TRUE(report.verified());
  report.operation(kWrite).completions = 1;  // completed, but never compared
  EXPECT_FALSE(report.verified());
}

TEST(ToolReport, NamesTheFirstWrongByte) {
  Report report;
  report.add(verdict(kSend, 1, 0));
  report.add(verdict(kSend, 2, 1));
  report.add(verdict(kSend, 3, 5));
  EXPECT_FALSE(report.verified());
  EXPECT_EQ(report.operation(kSend).wrong_bytes, 6U);
  EXPECT_EQ(report.operation(kSend).bytes, 3 * 4096U);
  EXPECT_EQ(
      report.wrong_text(),
      "verify: send, iteration 2, offset 100: expected 0x4e, got 0x4f (1 of 4096 bytes wrong)");
}

TEST(ToolReport, JsonNamesTheFault) {
  Report report;
  report.add(verdict(kWrite, 1, 1));
  const Json json = to_json(report);
  EXPECT_EQ(json["verified"], false);
  EXPECT_EQ(json["operations"][0]["first_wrong"]["offset"], 100);
}

TEST(ToolReport, ComparesDigestsOfAFile) {
  Report report;
  report.file = FileReport{.name = "f", .digest = "aa", .peer_digest = "aa"};
  EXPECT_TRUE(report.verified());
  report.file->peer_digest = "bb";
  EXPECT_FALSE(report.verified());
  EXPECT_THAT(report.wrong_text(), HasSubstr("digests differ"));
}

}  // namespace
}  // namespace hbmwire::tools
