// SPDX-License-Identifier: MIT
#include "tools/common/command_line.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <regex>
#include <span>
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

/// Names unknown options before stray words, because such a word probably was the value of the
/// unknown option.
std::string left_over_text(const CLI::App& app, const std::vector<std::string>& left_over) {
  const auto option = std::ranges::find_if(
      left_over, [](const std::string& word) { return word.size() > 1 && word.front() == '-'; });
  if (option == left_over.end()) return fmt::format("{}: one argument too many", left_over.front());
  const std::string name = option->substr(0, option->find('='));
  return with_suggestion(fmt::format("{}: unknown option", name), name, names_of_all(app));
}

/// Turns "{a,b,c}" of CLI11 into "a, b or c".
std::string choices_text(const std::vector<std::string>& choices) {
  std::string text;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (i != 0) text += i + 1 == choices.size() ? " or " : ", ";
    text += choices[i];
  }
  return text;
}

/// Rewrites CLI11's message about an invalid value in plain language.
std::string reason_text(const std::string& words, const std::string& value) {
  static const std::regex range(R"(Value .* not in range ([-0-9.]+) to ([-0-9.]+))");
  static const std::regex choice(R"([^]* not in \{(.*)\})");
  std::smatch found;
  if (std::regex_match(words, found, range)) {
    // CLI::PositiveNumber prints a range of fractions.
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

/// An error about an option's value begins with the option's name.
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

const CLI::Option* option_of(const CLI::App& app, const std::string& name) {
  return app.get_option_no_throw(name);
}

bool is_flag(const CLI::Option& option) { return option.get_items_expected_max() == 0; }

/// Whether a single word cannot be a value, because it looks like an option or is "--".
bool looks_like_option(std::string_view word) {
  if (word.size() < 2 || word.front() != '-') return false;
  return word[1] == '-' || std::isalpha(static_cast<unsigned char>(word[1])) != 0;
}

/// The option in this word that takes the next word as its value; null if there is none.
const CLI::Option* awaiting_option(const CLI::App& app, const std::string& word) {
  if (word.starts_with("--")) {
    const CLI::Option* const option = option_of(app, word);
    return option != nullptr && !is_flag(*option) ? option : nullptr;
  }
  // In "-avs" the first option that takes a value has the rest as its value, or else the next word.
  for (std::size_t i = 1; word.front() == '-' && i < word.size(); ++i) {
    const CLI::Option* const option = option_of(app, {'-', word[i]});
    if (option == nullptr) return nullptr;
    if (!is_flag(*option)) return i + 1 == word.size() ? option : nullptr;
  }
  return nullptr;
}

/// The mistake in "--NAME=VALUE": a value that the option does not take, or a missing one.
std::optional<std::string> assignment_mistake(const CLI::App& app, const std::string& word) {
  const std::size_t equals = word.find('=');
  if (!word.starts_with("--") || equals == std::string::npos) return std::nullopt;
  const CLI::Option* const option = option_of(app, word.substr(0, equals));
  if (option == nullptr) return std::nullopt;
  if (is_flag(*option)) return fmt::format("{}: {} takes no value", word, word.substr(0, equals));
  if (equals + 1 == word.size()) return fmt::format("{} needs a value", name_of(*option));
  return std::nullopt;
}

/// The first mistake that CLI11 would misread. It takes any word after an option as its value, even
/// after "--save=", drops an empty value, and treats "--quick=1" as "--quick".
std::optional<std::string> mistake_in_words(const CLI::App& app, std::span<char* const> words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string word = words[i];
    if (word == "--") return std::nullopt;
    if (auto mistake = assignment_mistake(app, word)) return mistake;
    const CLI::Option* const option = awaiting_option(app, word);
    if (option == nullptr || i + 1 == words.size()) continue;
    const std::string value = words[++i];
    if (value.empty()) return fmt::format("{} needs a value", name_of(*option));
    if (!looks_like_option(value)) continue;
    const bool can_be_meant = value != "--" && !option->get_lnames().empty();
    return fmt::format(
        "{} needs a value{}", name_of(*option),
        can_be_meant ? fmt::format("; if {0} is it: --{1}={0}", value, option->get_lnames().front())
                     : "");
  }
  return std::nullopt;
}

/// Searches the words themselves, because parsing may have stopped at a mistake before this option.
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
  // 0 passes, since a server with it takes a free port. Clients refuse it by a message of their
  // own.
  const auto check = [](const std::string& text) -> std::string {
    std::uint16_t port = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), port);
    const bool good = failure == std::errc{} && end == text.data() + text.size();
    return good ? "" : "a port is 1 to 65535";
  };
  return CLI::Validator(check, "");
}

std::string memory_types() {
  std::vector<std::string_view> types;
  for (const MemoryType type : kAllocatedTypes) types.push_back(to_string(type));
  return fmt::format("{}", fmt::join(types, "|"));
}

void add_memory_option(CLI::App& app, std::vector<MemoryChoice>& memories) {
  const auto add = [&memories](const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      const auto choice = parse_memory(text);
      if (!choice) {
        throw CLI::ValidationError(
            "--memory", "give gaudi, cuda, rocm or host, with :DEVICE behind it if wanted");
      }
      memories.push_back(*choice);
    }
  };
  app.add_option_function<std::vector<std::string>>(
         "--memory", add,
         "Only this memory, or device of it (an index or a PCI address); may be given more than "
         "once")
      ->allow_extra_args(false)  // each --memory has one value: a further word may be HOST
      ->option_text(memory_types() + "[:DEVICE]");
}

std::optional<int> parse_command_line(CLI::App& app, const std::string& program, int argc,
                                      char** argv) {
  const auto mistaken = [&](const std::string& mistake) {
    const bool json = asks_for_json(app, argc, argv);
    Output output(program, json ? Output::Mode::json : Output::Mode::text);
    return usage_error(output, mistake);
  };
  if (const auto mistake =
          mistake_in_words(app, std::span(argv, static_cast<std::size_t>(argc)).subspan(1)))
    return mistaken(*mistake);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    write_stdout(app.help());
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    return mistaken(mistake_of(app, error));
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
