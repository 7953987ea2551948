// SPDX-License-Identifier: MIT
#include "tools/doctor/explain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hbmwire/error.hpp"

#include "tools/common/command_line.hpp"
#include "tools/common/finish.hpp"
#include "tools/common/nearest.hpp"
#include "tools/doctor/explain/hint_entry.hpp"
#include "tools/doctor/explain/markdown.hpp"
#include <CLI/CLI.hpp>

namespace hbmwire::tools {
namespace {

using doctor::HintEntry;

constexpr const char* kExplainDescription =
    "Explains an error: its symptom, cause and remedy, the steps to take, and where to read more.\n"
    "An error sentence of hbmwire's commands ends with the name of its hint, as in\n"
    "[no_rdma_device]. Without HINT the names of all hints are listed.";

constexpr const char* kExplainFooter = R"(
The text is that of docs/troubleshooting.md.

Exit code
  0 the text was printed; 2 there is no such hint, or the command line is wrong.

Examples
  hbmwire doctor explain
  hbmwire doctor explain no_rdma_device
  hbmwire doctor explain '[no_rdma_device]'
  hbmwire doctor explain --json no_rdma_device | jq -r .steps[]
)";

constexpr std::size_t kIndent = 2;

/// Extracts "no_rdma_device" from "no_rdma_device", from "[no_rdma_device]", and from a sentence
/// that ends with the latter.
std::string_view name_in(std::string_view words) {
  const std::size_t bracket = words.ends_with(']') ? words.rfind('[') : std::string_view::npos;
  if (bracket == std::string_view::npos) return words;
  return words.substr(bracket + 1, words.size() - bracket - 2);
}

/// The remedy that names options of the tools instead of calls of the library; empty if there is
/// none.
std::string remedy_of_tools(Hint hint) {
  std::string remedy = remedy_by_options(hint);
  return remedy == hint_text(hint) ? std::string{} : remedy;
}

void print_entry(const HintEntry& entry, Output& output) {
  output.line("{}: {}", to_string(entry.hint), entry.summary);
  const auto print_part = [&output](std::string_view label, std::string_view markdown) {
    output.line("");
    output.line("{}", label);
    write_stdout(doctor::rendered(markdown, kIndent));
  };
  print_part("Remedy", entry.part("Remedy"));
  if (const std::string remedy = remedy_of_tools(entry.hint); !remedy.empty())
    print_part("Remedy, with the options of hbmwire's commands", remedy + ".");
  for (const HintEntry::Part& part : entry.parts) {
    if (part.label == "Remedy") continue;
    if (part.label == "See also") {
      output.line("\nSee also");
      for (const std::string& target : doctor::link_targets(part.markdown))
        output.line("  {}", target);
    } else {
      print_part(part.label, part.markdown);
    }
  }
}

std::string one_line(std::string_view markdown) {
  std::string text;
  for (const doctor::Block& block : doctor::blocks_of(markdown))
    text += (text.empty() ? "" : " ") + doctor::plain_text(block.text);
  return text;
}

Json entry_json(const HintEntry& entry) {
  Json json{{"hint", to_string(entry.hint)},
            {"chapter", entry.chapter},
            {"summary", entry.summary},
            {"remedy", hint_text(entry.hint)}};
  if (const std::string remedy = remedy_of_tools(entry.hint); !remedy.empty())
    json["remedy_by_options"] = remedy;
  json["symptom"] = one_line(entry.part("Symptom"));
  json["cause"] = one_line(entry.part("Cause"));
  json["steps"] = Json::array();
  for (const doctor::Block& block : doctor::blocks_of(entry.part("Steps")))
    json["steps"].push_back(doctor::plain_text(block.text));
  json["see_also"] = doctor::link_targets(entry.part("See also"));
  return json;
}

int list_all(const std::vector<HintEntry>& entries, Output& output) {
  std::size_t widest = 0;
  for (const HintEntry& entry : entries) widest = std::max(widest, to_string(entry.hint).size());
  Json hints = Json::array();
  std::string_view chapter;
  for (const HintEntry& entry : entries) {
    if (entry.chapter != chapter) {
      if (!chapter.empty()) output.line("");
      output.line("{}", entry.chapter);
    }
    chapter = entry.chapter;
    output.line("  {:<{}}  {}", to_string(entry.hint), widest, entry.summary);
    hints.push_back({{"hint", to_string(entry.hint)},
                     {"chapter", entry.chapter},
                     {"summary", entry.summary},
                     {"remedy", hint_text(entry.hint)}});
  }
  return finish(output, kExitOk, Json{{"hints", std::move(hints)}});
}

int no_such_hint(std::string_view name, const std::vector<HintEntry>& entries, Output& output) {
  std::vector<std::string> names;
  names.reserve(entries.size());
  for (const HintEntry& entry : entries) names.emplace_back(to_string(entry.hint));
  std::string sentence = fmt::format("\"{}\": no hint has this name; ", name);
  const auto meant = nearest(name, names);
  sentence += meant ? fmt::format("did you mean {}?", *meant)
                    : fmt::format("`{}` lists the names", output.program());
  return finish(output, Failure(sentence, kExitUsage), Json::object());
}

}  // namespace

int run_explain(int argc, char** argv) {
  const std::string program = argv[0];
  std::string words;
  bool json = false;
  CLI::App app(kExplainDescription, program);
  app.footer(kExplainFooter);
  const CLI::Option* const hint =
      app.add_option("HINT", words, "The name of a hint, or an error sentence that ends with it")
          ->option_text(" ");
  app.add_flag("--json", json, "One JSON object instead of text");
  if (const auto code = parse_command_line(app, program, argc, argv)) return *code;
  Output output(program, json ? Output::Mode::json : Output::Mode::text);
  if (const auto good = output.check(); !good) return finish(output, good.error(), Json::object());

  const std::vector<HintEntry> entries = doctor::hint_entries(doctor::troubleshooting_manual());
  if (hint->count() == 0) return list_all(entries, output);
  const std::string_view name = name_in(words);
  const auto entry = std::ranges::find(
      entries, name, [](const HintEntry& known) { return to_string(known.hint); });
  if (entry == entries.end()) return no_such_hint(name, entries, output);
  if (!json) print_entry(*entry, output);
  return finish(output, kExitOk, entry_json(*entry));
}

}  // namespace hbmwire::tools
