// SPDX-License-Identifier: MIT
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "tools/common/digest.hpp"
#include "tools/common/pieces.hpp"
#include "tools/common/progress.hpp"
#include "tools/common/text.hpp"

namespace hbmwire::tools {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(ToolSize, TakesBytesAndBinaryUnits) {
  EXPECT_EQ(parse_size("1"), 1U);
  EXPECT_EQ(parse_size("4194304"), 4194304U);
  EXPECT_EQ(parse_size("4k"), 4096U);
  EXPECT_EQ(parse_size("4M"), 4194304U);
  EXPECT_EQ(parse_size("1GiB"), 1073741824U);
  EXPECT_EQ(parse_size("2T"), 2199023255552U);
  EXPECT_EQ(parse_size("18446744073709551615"), 18446744073709551615U);
}

TEST(ToolSize, RefusesOtherTexts) {
  for (const char* text :
       {"", "0", "0M", "-1", "+1", " 1", "1 ", "1m", "4Q", "4MB", "1.5G", "0x10", "4MiBx",
        "18446744073709551616", "16777216T", "99999999999999999999999"}) {
    EXPECT_EQ(parse_size(text), std::nullopt) << text;
  }
}

TEST(ToolSize, IsShownInTheLargestWholeUnit) {
  EXPECT_EQ(size_text(1), "1 bytes");
  EXPECT_EQ(size_text(4194304), "4 MiB");
  EXPECT_EQ(size_text(4194305), "4194305 bytes");
  EXPECT_EQ(size_text(std::uint64_t{3} << 30), "3 GiB");
}

TEST(ToolRate, NeedsATime) {
  EXPECT_EQ(rate_text(1 << 20, 1'000'000'000), "1.0 MiB/s");
  EXPECT_EQ(rate_text(1 << 20, 0), "-");
}

TEST(ToolInts, ShowsTheFirstTen) {
  std::array<std::uint32_t, 12> words{};
  for (std::uint32_t i = 0; i < words.size(); ++i) words.at(i) = 100 + i;
  const auto head = std::as_bytes(std::span(words));
  EXPECT_EQ(ints_text(head, 1024),
            "(first 10 of 256 ints): 100 101 102 103 104 105 106 107 108 109 ...");
  EXPECT_EQ(ints_text(head.first(8), 8), "(first 2 of 2 ints): 100 101");
  EXPECT_EQ(ints_text(head.first(3), 3), "(3 bytes): 0x64 0x00 0x00");
}

TEST(ToolBaseName, RefusesPathsAndControlCharacters) {
  for (const char* name :
       {"a", "a.tar", ".hidden", "..a", "mit leerzeichen", "gr\xc3\xbc\xc3\x9f"}) {
    EXPECT_TRUE(is_base_name(name)) << name;
  }
  EXPECT_TRUE(is_base_name(std::string(255, 'x')));
  EXPECT_FALSE(is_base_name(std::string(256, 'x')));
  EXPECT_FALSE(is_base_name(std::string_view("a\0b", 3)));
  for (const char* name :
       {"", ".", "..", "/", "a/b", "/a", "a/", "../a", "a\nb", "a\x1b[2J", "a\x7f"}) {
    EXPECT_FALSE(is_base_name(name)) << name;
  }
}

TEST(ToolBaseName, IsThePartAfterTheLastSlash) {
  EXPECT_EQ(base_name_of("/a/b.tar"), "b.tar");
  EXPECT_EQ(base_name_of("b.tar"), "b.tar");
  for (const char* path : {"", "/", "a/", ".", "..", "a/.."})
    EXPECT_EQ(base_name_of(path), "") << path;
}

// The numbers come from b2sum: `printf abc | b2sum`.
TEST(ToolDigest, EqualsTheOutputOfB2sum) {
  Digest empty;
  EXPECT_EQ(digest_text(empty.finish()),
            "786a02f742015903c6c6fd852552d272912f4740e15847618a86e217f71f5419"
            "d25e1031afee585313896444934eb04b903a685b1448b755d56f701afe9be2ce");
  Digest abc;
  abc.update(bytes_of("a"));
  abc.update({});
  abc.update(bytes_of("bc"));
  EXPECT_EQ(digest_text(abc.finish()),
            "ba80a53f981c4d0d6a2797b69f12f6e94c212f14685ac4b74b12bb6fdbffa2d1"
            "7d87c5392aab792dc252d5de4533cc9518d38aa8dbf1925ab92386edd4009923");
}

TEST(ToolProgress, FitsEveryWidth) {
  const ProgressState state{
      .label = "sending", .done_bytes = 50, .total_bytes = 100, .nanoseconds = 1};
  for (unsigned columns = 0; columns < 200; ++columns) {
    EXPECT_LE(render_progress(state, columns).size(), columns);
  }
}

TEST(ToolProgress, ShowsBarPercentageAndRate) {
  const ProgressState state{.label = "sending",
                            .done_bytes = 1 << 20,
                            .total_bytes = 2 << 20,
                            .nanoseconds = 1'000'000'000};
  EXPECT_EQ(render_progress(state, 42), "sending [########........]  50%  1.0 MiB/s");
  EXPECT_EQ(render_progress(state, 26), "sending  50%  1.0 MiB/s");
  EXPECT_EQ(render_progress(state, 14), "sending  50%");
}

TEST(ToolProgress, ShowsTheCurrentStepInsteadOfARate) {
  ProgressState state{.label = "measuring", .done_bytes = 3, .total_bytes = 12, .nanoseconds = 1};
  state.detail = "64 KiB";
  EXPECT_EQ(render_progress(state, 40), "measuring [###............]  25%  64 KiB");
}

TEST(ToolProgress, ReachesTheEndOnlyAtTheEnd) {
  using testing::HasSubstr;
  const auto rendered = [](std::uint64_t done, std::uint64_t total) {
    return render_progress(
        {.label = "x", .done_bytes = done, .total_bytes = total, .nanoseconds = 1}, 80);
  };
  EXPECT_THAT(rendered(999, 1000), HasSubstr(" 99%"));
  EXPECT_THAT(rendered(1000, 1000), HasSubstr("100%"));
  EXPECT_THAT(rendered(0, 0), HasSubstr("100%"));  // an empty file
  EXPECT_THAT(rendered(0, 1000), HasSubstr("  0%"));
}

TEST(ToolPieces, CoverTheRangeOnce) {
  for (const std::uint64_t bytes : {0U, 1U, 9U, 10U, 11U, 20U, 105U}) {
    const Pieces pieces{bytes, 10};
    std::uint64_t next = 0;
    for (std::uint64_t i = 0; i < pieces.count(); ++i) {
      EXPECT_EQ(pieces.offset(i), next);
      EXPECT_GT(pieces.length(i), 0U);
      next += pieces.length(i);
    }
    EXPECT_EQ(next, bytes);
  }
}

TEST(ToolLayout, HalvesNeverOverlap) {
  for (const std::uint64_t size : {1U, 4095U, 4096U, 4097U}) {
    const Layout layout{size};
    EXPECT_GE(layout.receive(), layout.transmit() + size);
    EXPECT_EQ(layout.receive() % 4096, 0U);
    EXPECT_GE(layout.total_bytes(), layout.receive() + size);
    EXPECT_NE(layout.slot(4), layout.slot(7));
  }
}

}  // namespace
}  // namespace hbmwire::tools
