// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include "hbmwire/settings.hpp"

namespace hbmwire {
namespace {

// The words of a text with one blank between them, independent of its line breaks.
std::string words_of(const std::string& text) {
  std::istringstream in(text);
  std::string words;
  for (std::string word; in >> word;) words += word + " ";
  return words;
}

std::string words_of_file(const std::string& path) {
  std::ifstream file(path);
  return words_of({std::istreambuf_iterator<char>(file), {}});
}

TEST(SettingsManual, HasEverySettingWithItsChoicesAndDefault) {
  const std::string manual = words_of_file(HBMWIRE_DOCS "/settings.md");
  for (const SettingInfo& setting : describe_settings()) {
    const std::string value =
        setting.default_value.empty() ? "" : "(default `" + setting.default_value + "`) ";
    // A term of a definition list, and the beginning of its definition.
    const std::string term =
        "`" + std::string(setting.name) + "=" + std::string(setting.choices) + "` " + value + ": ";
    EXPECT_NE(manual.find(term), std::string::npos) << "docs/settings.md lacks the term " << term;
  }
}

}  // namespace
}  // namespace hbmwire
