// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include "tools/doctor/checks/finding.hpp"

namespace hbmwire::tools::doctor {
namespace {

// A sentence in the page begins with a capital letter, one in the help with a small letter.
std::string in_small_letters(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char letter) {
    return static_cast<char>(std::tolower(letter));
  });
  return text;
}

// Returns "name: sentence" for each definition of the page: a line "`name`", and a line
// ": *Sentence.* Source: ..." below it.
std::vector<std::string> definitions_of(const std::string& path) {
  std::ifstream file(path);
  const std::regex term("^`([a-z-]+)`$");
  const std::regex what("^: \\*(.*)\\.\\*.*$");
  std::vector<std::string> definitions;
  std::string name;
  for (std::string line; std::getline(file, line);) {
    std::smatch match;
    if (std::regex_match(line, match, term)) {
      name = match[1];
    } else if (!name.empty() && std::regex_match(line, match, what)) {
      const std::string text = match[1];
      definitions.push_back(in_small_letters(name + ": " + text));
      name.clear();
    }
  }
  return definitions;
}

TEST(DoctorChecksManual, ListsAllChecksAndTheirSentencesInOrder) {
  std::vector<std::string> checks;
  for (const Check& check : all_checks())
    checks.push_back(in_small_letters(std::string(check.name) + ": " + std::string(check.what)));
  EXPECT_EQ(definitions_of(HBMWIRE_DOCS "/doctor-checks.md"), checks);
}

}  // namespace
}  // namespace hbmwire::tools::doctor
