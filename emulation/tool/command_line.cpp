// SPDX-License-Identifier: MIT
#include "emulation/tool/command_line.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <regex>
#include <span>
#include <string_view>
#include <vector>

namespace hbmwire::emulation::tool {
namespace {

/// The number of letters to change, add, remove or swap with a neighbour (optimal string
/// alignment).
std::size_t letters_between(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> least(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      least[i][j] = i + j;
      if (i == 0 || j == 0) continue;
      const std::size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      least[i][j] =
          std::min({least[i - 1][j] + 1, least[i][j - 1] + 1, least[i - 1][j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        least[i][j] = std::min(least[i][j], least[i - 2][j - 2] + 1);
    }
  }
  return least[a.size()][b.size()];
}

std::string unknown_option(const CLI::App& app, const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  constexpr std::size_t kMost = 2;  // letters that a mistyped option may differ by
  std::string nearest;
  std::size_t least = kMost + 1;
  for (const CLI::Option* option : app.get_options()) {
    const std::string known = option->get_name();
    const std::size_t letters = letters_between(name, known);
    // A short name that differs in over a third of its letters is another one.
    if (letters >= least || letters * 3 > known.size()) continue;
    nearest = known;
    least = letters;
  }
  return nearest.empty() ? fmt::format("{}: unknown option", name)
                         : fmt::format("{}: unknown option; did you mean {}?", name, nearest);
}

std::string left_over(const CLI::App& app) {
  const auto words = app.remaining();
  if (words.empty()) return "the command line is wrong";
  if (words.front().size() > 1 && words.front().front() == '-')
    return unknown_option(app, words.front());
  return fmt::format("{}: COMMAND follows \"--\", as in hbmwire emulate -- {}", words.front(),
                     fmt::join(words, " "));
}

/// Rewrites CLI11's message in plain words.
std::string what_it_may_be(const std::string& words) {
  static const std::regex range(R"(Value .* not in range (-?\d+) to (\d+))");
  static const std::regex choice(R"([^]* not in \{(.*)\})");
  std::smatch found;
  if (std::regex_match(words, found, range))
    return fmt::format("give a number from {} to {}", found[1].str(), found[2].str());
  if (std::regex_match(words, found, choice)) {
    return "give one of " + std::regex_replace(found[1].str(), std::regex(","), ", ");
  }
  return words.starts_with("Could not convert") ? "give a number" : words;
}

bool looks_like_option(std::string_view word) { return word.size() > 2 && word.starts_with("--"); }

/// Describes a word "--NAME=VALUE" whose value is missing or not allowed.
std::string assignment_mistake(const CLI::Option& option, const std::string& word) {
  const std::size_t equals = word.find('=');
  if (option.get_items_expected_max() == 0)
    return fmt::format("{}: {} takes no value", word, option.get_name());
  return equals + 1 == word.size() ? fmt::format("{} needs a value", option.get_name()) : "";
}

}  // namespace

std::string mistake_in_words(const CLI::App& app, std::span<char* const> words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string word = words[i];
    const std::size_t equals = word.find('=');
    const CLI::Option* const option =
        looks_like_option(word) ? app.get_option_no_throw(word.substr(0, equals)) : nullptr;
    if (option == nullptr) continue;
    if (equals != std::string::npos) {
      if (auto mistake = assignment_mistake(*option, word); !mistake.empty()) return mistake;
      continue;
    }
    if (option->get_items_expected_min() == 0 || i + 1 == words.size()) continue;
    const std::string_view value = words[++i];
    if (value.empty()) return fmt::format("{} needs a value", word);
    if (looks_like_option(value))
      return fmt::format("{0} needs a value; if {1} is it: {0}={1}", word, value);
  }
  return {};
}

std::string mistake_of(const CLI::App& app, const CLI::ParseError& error) {
  const std::string words = error.what();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) return left_over(app);
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name();
    std::string_view rest = words;
    if (rest.starts_with(name + ": ")) {
      rest.remove_prefix(name.size() + 2);
    } else if (!rest.starts_with("Could not convert: " + name + " = ")) {
      continue;
    }
    if (rest.ends_with(" missing")) return fmt::format("{} needs a value", name);
    const std::string value = option->results().empty() ? "" : option->results().back();
    return fmt::format("{} {}: {}", name, value.empty() ? "\"\"" : value,
                       what_it_may_be(std::string(rest)));
  }
  return words;
}

}  // namespace hbmwire::emulation::tool
