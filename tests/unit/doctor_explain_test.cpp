// SPDX-License-Identifier: MIT
// Tests docs/troubleshooting.md as `hbmwire doctor explain` shows it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "hbmwire/error.hpp"

#include "tools/doctor/explain/hint_entry.hpp"
#include "tools/doctor/explain/manual.hpp"
#include "tools/doctor/explain/markdown.hpp"

namespace hbmwire::tools::doctor {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<HintEntry> entries_of_manual() { return hint_entries(troubleshooting_manual()); }

std::string plain_remedy(const HintEntry& entry) {
  std::string remedy;
  for (const Block& block : blocks_of(entry.part("Remedy"))) remedy += plain_text(block.text);
  return remedy;
}

TEST(TroubleshootingManual, HasEveryRemedyThatAnErrorMayName) {
  std::map<Hint, HintEntry> entries;
  for (HintEntry& entry : entries_of_manual()) {
    const Hint hint = entry.hint;
    EXPECT_TRUE(entries.emplace(hint, std::move(entry)).second)
        << "two entries of " << to_string(hint);
  }
  for (int i = static_cast<int>(Hint::none) + 1; !to_string(static_cast<Hint>(i)).empty(); ++i) {
    const auto hint = static_cast<Hint>(i);
    const auto entry = entries.find(hint);
    ASSERT_NE(entry, entries.end()) << "docs/troubleshooting.md has no ### " << to_string(hint);
    EXPECT_EQ(plain_remedy(entry->second), std::string(hint_text(hint)) + ".") << to_string(hint);
  }
}

// Finds names that are misspelt, or that the library no longer has.
TEST(TroubleshootingManual, NamesNoHintThatTheLibraryLacks) {
  for (const ManualPart& part : troubleshooting_manual()) {
    // The headings of other entries have several words.
    if (part.mark != "###" || part.title.find(' ') != std::string_view::npos) continue;
    EXPECT_TRUE(hint_from_name(part.title)) << part.title;
    EXPECT_NE(part.title, "none");
  }
}

TEST(TroubleshootingManual, HasTheSamePartsInEachEntry) {
  constexpr std::array<std::string_view, 5> kLabels = {"Symptom", "Cause", "Remedy", "Steps",
                                                       "See also"};
  for (const HintEntry& entry : entries_of_manual()) {
    SCOPED_TRACE(to_string(entry.hint));
    EXPECT_FALSE(entry.chapter.empty());
    EXPECT_TRUE(entry.summary.ends_with('.')) << entry.summary;
    auto label = kLabels.begin();
    for (const HintEntry::Part& part : entry.parts) {
      label = std::find(label, kLabels.end(), part.label);
      ASSERT_NE(label, kLabels.end()) << "unknown, or not in order: " << part.label;
      ++label;
      EXPECT_THAT(blocks_of(part.markdown), testing::Not(IsEmpty())) << part.label;
    }
    for (const std::string_view needed : {"Symptom", "Remedy"})
      EXPECT_FALSE(entry.part(needed).empty()) << needed;
    for (const Block& step : blocks_of(entry.part("Steps")))
      EXPECT_EQ(step.kind, Block::Kind::item) << step.text;
  }
}

TEST(TroubleshootingManual, NamesFilesThatAreThere) {
  for (const HintEntry& entry : entries_of_manual()) {
    if (entry.part("See also").empty()) continue;
    const auto targets = link_targets(entry.part("See also"));
    EXPECT_FALSE(targets.empty()) << to_string(entry.hint);
    for (const std::string& target : targets)
      EXPECT_TRUE(std::filesystem::is_regular_file(HBMWIRE_DOCS "/../" + target)) << target;
  }
}

TEST(TroubleshootingManual, FitsATerminalOf80Columns) {
  for (const HintEntry& entry : entries_of_manual()) {
    // The width left in the list of all hints: "  NAME  SUMMARY", with a column as wide as the
    // longest name.
    EXPECT_LE(entry.summary.size(), 51U) << entry.summary;
    for (const HintEntry::Part& part : entry.parts) {
      std::istringstream lines(rendered(part.markdown, 2));
      for (std::string line; std::getline(lines, line);)
        EXPECT_LE(line.size(), kTerminalColumns) << line;
    }
  }
}

TEST(HintEntries, OnlyHeadingsThatNameHintsAreEntries) {
  const std::vector<ManualPart> manual = {
      {"", "", "# A manual\n"},
      {"##", "Chapter", "\nWords.\n"},
      {"###", "no_cuda",
       "\nNo library.\n\n* Symptom: `a`,\n  `b`\n* Steps:\n  1. First,\n     and on.\n  2. "
       "Second.\n"
       "* See also: [x.md](x.md#y)\n"},
      {"###", "Other things", "\n* Cause: none.\n"},
  };
  const auto entries = hint_entries(manual);
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].hint, Hint::no_cuda);
  EXPECT_EQ(entries[0].chapter, "Chapter");
  EXPECT_EQ(entries[0].summary, "No library.");
  EXPECT_EQ(entries[0].part("Symptom"), "`a`,\n`b`\n");
  EXPECT_EQ(rendered(entries[0].part("Steps"), 2), "  1. First, and on.\n  2. Second.\n");
  EXPECT_THAT(link_targets(entries[0].part("See also")), ElementsAre("docs/x.md"));
  EXPECT_TRUE(entries[0].part("Remedy").empty());
}

TEST(Markdown, MarksAreRemoved) {
  EXPECT_EQ(plain_text("**bold** `a**b` \\*x\\* 2 * 3"), "bold `a**b` *x* 2 * 3");
  EXPECT_EQ(plain_text("[info.md](info.md#json), [how](../emulation/README.md)"),
            "docs/info.md, how (emulation/README.md)");
  EXPECT_EQ(plain_text("[here](#top), [site](https://example.org/a)"),
            "here (docs/troubleshooting.md), site (https://example.org/a)");
  EXPECT_EQ(plain_text("a [b] c](d) `e"), "a [b] c](d) `e");
}

TEST(Markdown, IsWrappedAtWordsAndNotInCode) {
  const std::string text = std::string(70, 'x') + " `ip link set NAME up` y";
  EXPECT_EQ(rendered(text, 2), "  " + std::string(70, 'x') + "\n  `ip link set NAME up` y\n");
  // A word wider than the terminal gets its own line.
  const std::string wide(100, 'w');
  EXPECT_EQ(rendered("a " + wide + " b", 0), "a\n" + wide + "\nb\n");
  // Columns count, not bytes.
  std::string umlauts;
  for (int i = 0; i < 78; ++i) umlauts += "ü";
  EXPECT_EQ(rendered(umlauts + " b", 0), umlauts + " b\n");
}

TEST(Markdown, KeepsLinesOfCodeAndParagraphsApart) {
  EXPECT_EQ(rendered("One\ntwo.\n\n    a  b\n    c\n\nThree.\n\n* four\n  five\n* six\n", 1),
            " One two.\n\n     a  b\n     c\n\n Three.\n\n * four five\n * six\n");
  EXPECT_EQ(rendered("", 2), "");
}

}  // namespace
}  // namespace hbmwire::tools::doctor
