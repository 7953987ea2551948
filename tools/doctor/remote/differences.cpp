// SPDX-License-Identifier: MIT
#include "tools/doctor/remote/differences.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "tools/doctor/remote/facts.hpp"
#include "tools/wire/messages.hpp"

namespace hbmwire::tools::doctor {
namespace {

// The most characters shown of a foreign text. A kernel's release has up to 64.
constexpr std::size_t kMostOfValue = 64;
constexpr std::size_t kMostOfName = 32;
constexpr std::size_t kMostOfWhat = 120;
constexpr std::size_t kMostOfSource = 120;

constexpr std::size_t kValuesNamed = 3;  // values named for one end
constexpr std::size_t kNamesNamed = 3;   // names listed for one value
constexpr std::size_t kMostOfFact = 16;  // differences of one fact, one for each group

/// The things of one end that have a value.
struct Holders {
  std::vector<std::string> subjects;
  std::string source;  ///< the source of the first one
};

/// The readings of one end for one fact, or for one group of it.
struct Values {
  std::map<std::string, Holders> holders_of;  ///< by value
  std::size_t subjects = 0;

  [[nodiscard]] bool is_uniform() const noexcept { return holders_of.size() == 1; }
};

/// The groups, in the order in which they were read.
using Groups = std::vector<std::pair<std::string, Values>>;

Groups groups_of(const Readings& readings) {
  Groups groups;
  std::map<std::string, std::size_t> places;
  for (const Reading& reading : readings) {
    const auto [place, is_new] = places.try_emplace(reading.group, groups.size());
    if (is_new) groups.emplace_back(reading.group, Values());
    Values& values = groups[place->second].second;
    ++values.subjects;
    Holders& holders = values.holders_of[reading.value];
    if (holders.subjects.empty()) holders.source = reading.source;
    holders.subjects.push_back(reading.subject);
  }
  return groups;
}

/// The source of a value that `other` does not have; empty if it has all of them.
std::optional<std::string> source_of_own(const Values& values, const Values& other) {
  for (const auto& [value, holders] : values.holders_of) {
    if (!other.holders_of.contains(value)) return holders.source;
  }
  return std::nullopt;
}

/// Joins names: "mlx5_0, mlx5_1, mlx5_2 and 5 more".
std::string names_text(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kNamesNamed); ++i)
    text += (i == 0 ? "" : ", ") + shown(names[i], kMostOfName);
  if (names.size() > kNamesNamed) text += fmt::format(" and {} more", names.size() - kNamesNamed);
  return text;
}

std::string values_text(const Values& values, const Values& other) {
  if (values.is_uniform()) {
    const bool says_all = values.subjects > 1 && !other.is_uniform();
    return shown(values.holders_of.begin()->first, kMostOfValue) + (says_all ? " on all" : "");
  }
  std::string text;
  std::size_t count = 0;
  for (const auto& [value, holders] : values.holders_of) {
    if (count++ == kValuesNamed) break;
    text += fmt::format("{}{} on {}", count == 1 ? "" : "; ", shown(value, kMostOfValue),
                        names_text(holders.subjects));
  }
  const std::size_t all = values.holders_of.size();
  if (all > kValuesNamed) text += fmt::format("; and {} other values", all - kValuesNamed);
  return text;
}

/// Returns "path MTU of mlx5_0 and mlx5_2" if each end has one port, else "path MTU".
std::string name_of_fact(const Fact& fact, const std::string& group, const Values& here,
                         const Values& there) {
  std::string name(fact.what);
  if (!group.empty()) name += (name.empty() ? "" : " ") + group;
  const std::string our = here.holders_of.begin()->second.subjects.front();
  const std::string their = there.holders_of.begin()->second.subjects.front();
  if (!group.empty() || our.empty() || here.subjects != 1 || there.subjects != 1)
    return shown(name, kMostOfWhat);
  const std::string one = shown(our, kMostOfName);
  const std::string other = shown(their, kMostOfName);
  return fmt::format("{} of {}", name, one == other ? one : one + " and " + other);
}

/// Merges groups that differ in the same way, such as the modules of one driver package.
void add_difference(std::vector<Difference>& found, Difference difference,
                    const std::string& group) {
  const auto same = std::ranges::find_if(found, [&](const Difference& other) {
    return other.here == difference.here && other.there == difference.there;
  });
  if (same == found.end() || group.empty()) {
    if (found.size() < kMostOfFact) found.push_back(std::move(difference));
  } else {
    same->what = shown(same->what + ", " + group, kMostOfWhat);
  }
}

std::vector<Difference> differences_of(const Fact& fact, End& here, End& there) {
  const Groups ours = groups_of(fact.read(here));
  const Groups theirs = groups_of(fact.read(there));
  std::map<std::string_view, const Values*> others;
  for (const auto& [group, values] : theirs) others.emplace(group, &values);
  std::vector<Difference> found;
  for (const auto& [group, values] : ours) {
    const auto at = others.find(group);
    if (at == others.end()) continue;
    const Values& other = *at->second;
    auto source = source_of_own(values, other);
    if (!source) source = source_of_own(other, values);
    if (!source) continue;
    add_difference(found,
                   {.what = name_of_fact(fact, group, values, other),
                    .here = values_text(values, other),
                    .there = values_text(other, values),
                    .source = shown(*source, kMostOfSource),
                    .matter = fact.matter,
                    .remedy = std::string(fact.remedy)},
                   group);
  }
  return found;
}

}  // namespace

std::string_view to_string(Difference::Matter matter) noexcept {
  return matter == Difference::Matter::fault ? "fault" : "note";
}

std::vector<Difference> differences(Evidence& here, Evidence& there,
                                    const ArchiveVersions& versions) {
  End ours(here, versions.here);
  End theirs(there, versions.there);
  std::vector<Difference> all;
  for (const auto facts : {machine_facts(), port_facts()}) {
    for (const Fact& fact : facts) {
      for (Difference& difference : differences_of(fact, ours, theirs))
        all.push_back(std::move(difference));
    }
  }
  return all;
}

void ask_for_differences(Evidence& machine) {
  End end(machine, {});
  for (const auto facts : {machine_facts(), port_facts()}) {
    for (const Fact& fact : facts) static_cast<void>(fact.read(end));
  }
}

Json to_json(const std::vector<Difference>& differences) {
  Json list = Json::array();
  for (const Difference& difference : differences) {
    list.push_back({{"what", difference.what},
                    {"here", difference.here},
                    {"there", difference.there},
                    {"source", difference.source},
                    {"matter", to_string(difference.matter)},
                    {"remedy", difference.remedy}});
  }
  return list;
}

std::string shown(std::string_view foreign, std::size_t most) {
  std::string text = wire::printable(foreign.substr(0, most));
  if (foreign.size() > most) text.replace(most - 3, 3, "...");
  return text;
}

}  // namespace hbmwire::tools::doctor
