// SPDX-License-Identifier: MIT
#include "tools/common/command_line.hpp"

#include <algorithm>
#include <charconv>
#include <regex>
#include <string_view>
#include <vector>

#include "tools/common/finish.hpp"
#include "tools/common/nearest.hpp"

namespace hbmwire::tools {
namespace {

std::string name_of(const CLI::Option& option) {
  if (!option.get_snames().empty()) return "-" + option.get_snames().front();
  if (!option.get_lnames().empty()) return "--" + option.get_lnames().front();
  return option.get_name();
}

std::vector<std::string> names_of_all(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::string with_suggestion(std::string sentence, std::string_view word,
                            const std::vector<std::string>& known) {
  if (const auto meant = nearest(word, known))
    sentence += fmt::format("; did you mean {}?", *meant);
  return sentence;
}

/// Unknown options are named before words: a word beside one was to be its value.
std::string left_over_text(const CLI::App& app, const std::vector<std::string>& left_over) {
  const auto option = std::ranges::find_if(
      left_over, [](const std::string& word) { return word.size() > 1 && word.front() == '-'; });
  if (option == left_over.end()) return fmt::format("{}: one argument too many", left_over.front());
  const std::string name = option->substr(0, option->find('='));
  return with_suggestion(fmt::format("{}: unknown option", name), name, names_of_all(app));
}

/// "a, b or c" of CLI11's "{a,b,c}".
std::string choices_text(const std::vector<std::string>& choices) {
  std::string text;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (i != 0) text += i + 1 == choices.size() ? " or " : ", ";
    text += choices[i];
  }
  return text;
}

/// CLI11's words for a value that can't be, as a person would say it.
std::string reason_text(const std::string& words, const std::string& value) {
  static const std::regex range(R"(Value .* not in range ([-0-9.]+) to ([-0-9.]+))");
  static const std::regex choice(R"([^]* not in \{(.*)\})");
  std::smatch found;
  if (std::regex_match(words, found, range)) {
    // CLI::PositiveNumber is a range of fractions.
    if (found[1].str().find('.') != std::string::npos) return "give a number above 0";
    return fmt::format("give a number from {} to {}", found[1].str(), found[2].str());
  }
  if (std::regex_match(words, found, choice)) {
    const auto choices = CLI::detail::split(found[1].str(), ',');
    return with_suggestion(fmt::format("give {}", choices_text(choices)), value, choices);
  }
  if (words.starts_with("Could not convert")) return "give a number";
  return words;
}

/// An error that concerns an option's value begins with the option's name.
std::string value_text(const CLI::App& app, const std::string& words) {
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name();
    std::string_view rest = words;
    if (rest.starts_with(name + ": ")) {
      rest.remove_prefix(name.size() + 2);
    } else if (!rest.starts_with("Could not convert: " + name + " = ")) {
      continue;
    }
    if (rest.ends_with(" missing")) return fmt::format("{} needs a value", name_of(*option));
    const std::string value = option->results().empty() ? "" : option->results().back();
    return fmt::format("{} {}: {}", name_of(*option), value.empty() ? "\"\"" : value,
                       reason_text(std::string(rest), value));
  }
  return words;
}

std::string mistake_of(const CLI::App& app, const CLI::ParseError& error) {
  const std::string words = error.what();
  const auto left_over = app.remaining();
  const bool lacks = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  const bool has_more = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  if ((lacks || has_more) && !left_over.empty()) return left_over_text(app, left_over);
  if (lacks) return std::regex_replace(words, std::regex(" is required$"), " is missing");
  return value_text(app, words);
}

/// Looked for in the words themselves: a line that is wrong may not have been parsed so far.
bool asks_for_json(const CLI::App& app, int argc, char** argv) {
  const CLI::Option* const option = app.get_option_no_throw("--json");
  if (option == nullptr) return false;
  return std::any_of(argv + 1, argv + argc, [option](const char* word) {
    return std::ranges::any_of(option->get_lnames(),
                               [word](const std::string& name) { return "--" + name == word; });
  });
}

}  // namespace

CLI::Validator is_port() {
  const auto check = [](const std::string& text) -> std::string {
    std::uint16_t port = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), port);
    const bool good = failure == std::errc{} && end == text.data() + text.size();
    return good ? "" : "a port is 1 to 65535";
  };
  return CLI::Validator(check, "");
}

std::optional<int> parse_command_line(CLI::App& app, const std::string& program, int argc,
                                      char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    write_stdout(app.help());
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    const bool json = asks_for_json(app, argc, argv);
    Output output(program, json ? Output::Mode::json : Output::Mode::text);
    return usage_error(output, mistake_of(app, error));
  }
  return std::nullopt;
}

int usage_error(Output& output, const std::string& mistake) {
  const std::string sentence = fmt::format("{}; see {} --help", mistake, output.program());
  return finish(output, Failure(sentence, kExitUsage), Json::object());
}

Outcome<HostPort> place_of(const std::string& text, std::uint16_t port,
                           const CLI::Option& port_option) {
  auto place = split_host_port(text, port);
  if (!place) return fail(fmt::format("{}: {}", text, place.error().call), kExitUsage);
  if (place->port != port && port_option.count() != 0) {
    return fail(fmt::format("{} names port {}, and {} {}: give one of them", text, place->port,
                            name_of(port_option), port),
                kExitUsage);
  }
  return *place;
}

}  // namespace hbmwire::tools
