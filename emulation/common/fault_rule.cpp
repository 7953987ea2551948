// SPDX-License-Identifier: MIT
#include "emulation/common/fault_rule.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <span>

namespace hbmwire::emulation {
namespace {

using Action = FaultRule::Action;
using Point = FaultRule::Point;

// Plans are written by hand, so a larger number of rules is a mistake. The shared table must have
// room for all rules.
constexpr std::size_t kMaxRules = 64;
constexpr std::uint64_t kMaxErrno = 4095;  // MAX_ERRNO of the kernel's include/linux/err.h
constexpr std::uint64_t kMaxTimeUs = 3'600'000'000;  // an hour, so that its end can be observed
constexpr std::uint64_t kUs = 1000;
constexpr std::uint64_t kMs = 1'000'000;

constexpr std::string_view kPayloads[] = {"send", "write", "read"};
constexpr std::string_view kOperations[] = {"send", "write", "read", "atomic"};
constexpr std::string_view kObjects[] = {"mr", "mw", "qp", "cq", "pd", "srq", "ah"};
constexpr std::string_view kRegistrations[] = {"ibv_reg_mr", "ibv_reg_dmabuf_mr"};

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const auto first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// Removes the part before `separator` from the front of `rest` and returns it. For the last part
// `rest` becomes empty.
std::string_view next_part(std::string_view& rest, char separator) {
  const auto end = rest.find(separator);
  const auto part = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
  return trimmed(part);
}

std::string quoted(std::string_view text) {
  std::string result = "'";
  for (const char c : text.substr(0, 80)) result += c >= ' ' && c < '\x7f' ? c : '?';
  return result + "'";
}

// Joins names as "a, b or c".
std::string listed(std::span<const std::string_view> names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i != 0) text += i + 1 == names.size() ? " or " : ", ";
    text += names[i];
  }
  return text;
}

bool is_word(std::string_view text, std::string_view extra) {
  return !text.empty() && text.size() <= 64 && std::ranges::all_of(text, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           extra.find(c) != std::string_view::npos;
  });
}

// Setters return an empty string, or what is wrong with the value.
struct Range {
  std::uint64_t least;
  std::uint64_t most;
};

std::string set_number(std::string_view value, Range range, std::uint64_t& result) {
  std::uint64_t parsed = 0;
  const auto [end, failure] = std::from_chars(value.data(), value.data() + value.size(), parsed);
  const bool whole = failure == std::errc{} && end == value.data() + value.size();
  if (!whole || parsed < range.least || parsed > range.most) {
    return "is not a number from " + std::to_string(range.least) + " to " +
           std::to_string(range.most);
  }
  result = parsed;
  return {};
}

constexpr Range kFromOne{1, UINT64_MAX};
constexpr Range kFromZero{0, UINT64_MAX};

std::string set_time(std::string_view value, std::uint64_t unit_ns, std::uint64_t& result) {
  std::uint64_t parsed = 0;
  auto problem = set_number(value, {1, kMaxTimeUs * kUs / unit_ns}, parsed);
  result = parsed * unit_ns;
  return problem;
}

std::string set_name(std::string_view value, std::span<const std::string_view> names,
                     std::string& result) {
  if (std::ranges::find(names, value) == names.end()) return "is not " + listed(names);
  result = value;
  return {};
}

/// Reads a decimal fraction digit by digit, so that the same text always means the same chance.
std::string set_chance(std::string_view value, std::uint64_t& result) {
  constexpr std::size_t kDigits = 9;
  constexpr const char* kProblem = "is not a probability from 0.000000001 to 1";
  auto fraction = value;
  const auto whole = next_part(fraction, '.');
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const bool well_formed = (whole.empty() || whole == "0" || whole == "1") &&
                           fraction.size() <= kDigits && whole.size() + fraction.size() != 0 &&
                           std::ranges::all_of(fraction, is_digit);
  if (!well_formed) return kProblem;
  std::uint64_t parsed = whole == "1" ? 1 : 0;
  for (std::size_t i = 0; i < kDigits; ++i)
    parsed =
        parsed * 10 + (i < fraction.size() ? static_cast<std::uint64_t>(fraction[i] - '0') : 0);
  if (parsed == 0 || parsed > FaultRule::kCertain) return kProblem;
  result = parsed;
  return {};
}

std::string set_op(FaultRule& rule, std::string_view value) {
  rule.point = Point::operation;
  if (rule.action == Action::flip) return set_name(value, kPayloads, rule.subject);
  return set_name(value, kOperations, rule.subject);
}

std::string set_call(FaultRule& rule, std::string_view value) {
  rule.point = Point::call;
  if (rule.action == Action::revoke) return set_name(value, kRegistrations, rule.subject);
  if (!is_word(value, "_")) return "is not the name of a function";
  rule.subject = value;
  return {};
}

std::string set_step(FaultRule& rule, std::string_view value) {
  rule.point = Point::step;
  return set_name(value, kFaultSteps, rule.subject);
}

std::string set_object(FaultRule& rule, std::string_view value) {
  rule.point = Point::creation;
  return set_name(value, kObjects, rule.subject);
}

std::string set_node(FaultRule& rule, std::string_view value) {
  if (!is_word(value, "._-")) return "is not a node name (letters, digits, '.', '_', '-')";
  rule.node = value;
  return {};
}

std::string set_count(FaultRule& rule, std::string_view value) {
  return set_number(value, rule.action == Action::limit ? kFromZero : kFromOne, rule.count);
}

std::string set_errno(FaultRule& rule, std::string_view value) {
  std::uint64_t parsed = 0;
  auto problem = set_number(value, {1, kMaxErrno}, parsed);
  if (problem.empty()) rule.error_number = static_cast<int>(parsed);
  return problem;
}

struct Setting {
  std::string_view name;
  std::string (*set)(FaultRule& rule, std::string_view value);
};

constexpr Setting kSettings[] = {
    {"op", set_op},
    {"call", set_call},
    {"at", set_step},
    {"object", set_object},
    {"node", set_node},
    {"nth", [](FaultRule& r, std::string_view v) { return set_number(v, kFromOne, r.nth); }},
    {"every", [](FaultRule& r, std::string_view v) { return set_number(v, kFromOne, r.every); }},
    {"count", set_count},
    {"p", [](FaultRule& r, std::string_view v) { return set_chance(v, r.chance); }},
    {"byte", [](FaultRule& r, std::string_view v) { return set_number(v, kFromZero, r.byte); }},
    {"errno", set_errno},
    {"ms", [](FaultRule& r, std::string_view v) { return set_time(v, kMs, r.time_ns); }},
    {"us", [](FaultRule& r, std::string_view v) { return set_time(v, kUs, r.time_ns); }},
    {"for", [](FaultRule& r, std::string_view v) { return set_time(v, kMs, r.time_ns); }},
};

/// Settings that select the matches on which a rule acts.
constexpr std::string_view kSelection[] = {"node", "nth", "every", "count", "p"};

/// The other settings of an action: any of `settings`, and exactly one from each list in `needs`
/// (names in a list are separated by '|').
struct Grammar {
  std::string_view name;
  Action action;
  std::string_view settings;
  std::string_view needs;
  std::string_view example;
};

constexpr Grammar kActions[] = {
    {"fail", Action::fail, "op call errno", "op|call", "fail,call=ibv_reg_dmabuf_mr"},
    {"flip", Action::flip, "op byte", "", ""},
    {"drop", Action::drop, "op", "", ""},
    {"delay", Action::delay, "op ms us", "ms|us", "delay,op=write,ms=5"},
    {"late", Action::late, "op ms us", "ms|us", "late,op=send,ms=50"},
    {"revoke", Action::revoke, "op call", "op|call", "revoke,op=write,nth=3"},
    {"limit", Action::limit, "object count node", "object count", "limit,object=mr,count=100"},
    {"link", Action::link, "op call for", "op|call", "link,op=write,for=100"},
    {"kill", Action::kill, "op call at", "op|call|at", "kill,op=send,nth=5"},
    {"stop", Action::stop, "op call at for", "op|call|at", "stop,op=send,for=100"},
};

/// The words of a list that Grammar has as text.
std::vector<std::string_view> words_of(std::string_view text, char separator) {
  std::vector<std::string_view> words;
  while (!text.empty()) words.push_back(next_part(text, separator));
  return words;
}

std::string apply_setting(const Grammar& grammar, FaultRule& rule, std::string_view key,
                          std::string_view value) {
  auto allowed = words_of(grammar.settings, ' ');
  if (grammar.action != Action::limit)
    allowed.insert(allowed.end(), std::begin(kSelection), std::end(kSelection));
  if (std::ranges::find(allowed, key) == allowed.end()) {
    return "is not a setting of " + quoted(grammar.name) + " (" + listed(allowed) + ")";
  }
  const auto* const setting = std::ranges::find(kSettings, key, &Setting::name);
  return setting->set(rule, value);
}

/// Checks that an action has exactly one setting from each list that it needs.
std::string check_needs(const Grammar& grammar, const std::vector<std::string_view>& given) {
  for (const auto need : words_of(grammar.needs, ' ')) {
    const auto choices = words_of(need, '|');
    const auto present = std::ranges::count_if(
        choices, [&](auto name) { return std::ranges::find(given, name) != given.end(); });
    if (present == 1) continue;
    return quoted(grammar.name) + (present == 0 ? " needs " : " takes only one of ") +
           listed(choices) + ", for example " + std::string(grammar.example);
  }
  return {};
}

std::string parse_settings(const Grammar& grammar, std::string_view rest, FaultRule& rule) {
  std::vector<std::string_view> seen;
  bool more = !rest.empty();
  while (more) {
    more = rest.find(',') != std::string_view::npos;
    const auto setting = next_part(rest, ',');
    const auto equals = setting.find('=');
    if (equals == std::string_view::npos)
      return "setting " + quoted(setting) + " is not of the form key=value";
    const auto key = trimmed(setting.substr(0, equals));
    const auto value = trimmed(setting.substr(equals + 1));
    if (std::ranges::find(seen, key) != seen.end())
      return "setting " + quoted(key) + " is given twice";
    seen.push_back(key);
    if (const auto problem = apply_setting(grammar, rule, key, value); !problem.empty())
      return quoted(setting) + " " + problem;
  }
  return check_needs(grammar, seen);
}

// Returns an empty string, or what is wrong with the rule.
std::string parse_rule(std::string_view text, FaultRule& rule) {
  auto rest = text;
  const auto action = next_part(rest, ',');
  const auto* const grammar = std::ranges::find(kActions, action, &Grammar::name);
  if (grammar == std::end(kActions)) {
    std::vector<std::string_view> names;
    for (const Grammar& known : kActions) names.push_back(known.name);
    return "action " + quoted(action) + " is not " + listed(names) + " (nor is it seed=N)";
  }
  rule.action = grammar->action;
  if (text.find(',') != std::string_view::npos && rest.empty())
    return "setting '' is not of the form key=value";
  return parse_settings(*grammar, rest, rule);
}

/// Parses "seed=N", which is not a rule. Returns nullopt if `text` is something else, otherwise an
/// empty string or what is wrong.
std::optional<std::string> parse_seed(std::string_view text, std::uint64_t& seed) {
  auto value = text;
  if (text.find('=') == std::string_view::npos || next_part(value, '=') != "seed")
    return std::nullopt;
  auto problem = set_number(trimmed(value), kFromZero, seed);
  return problem.empty() ? problem : "seed " + problem;
}

}  // namespace

bool parse_fault_plan(std::string_view text, std::vector<FaultRule>& rules, std::string& error) {
  rules.clear();
  error.clear();
  std::vector<FaultRule> parsed;
  std::uint64_t seed = FaultRule{}.seed;
  auto rest = text;
  for (std::size_t position = 1; !rest.empty(); ++position) {
    const auto part = next_part(rest, ';');
    if (part.empty()) continue;
    const auto is_seed = parse_seed(part, seed);
    FaultRule rule;
    const auto problem = is_seed ? *is_seed : parse_rule(part, rule);
    if (!problem.empty()) {
      error =
          "fault plan: rule " + std::to_string(position) + " (" + quoted(part) + "): " + problem;
      return false;
    }
    if (!is_seed) parsed.push_back(std::move(rule));
    if (parsed.size() > kMaxRules) {
      error = "fault plan: more than " + std::to_string(kMaxRules) + " rules";
      return false;
    }
  }
  for (FaultRule& rule : parsed) rule.seed = seed;
  rules = std::move(parsed);
  return true;
}

}  // namespace hbmwire::emulation
