// SPDX-License-Identifier: MIT
#include "tests/doctor/fixture_machine.hpp"

#include <sodium.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <set>
#include <stdexcept>

namespace hbmwire::tools::doctor {
namespace {

std::string decoded(const std::string& text) {
  std::string bytes(text.size(), '\0');
  std::size_t size = 0;
  if (sodium_base642bin(reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(), text.data(),
                        text.size(), nullptr, &size, nullptr, sodium_base64_VARIANT_ORIGINAL) != 0)
    throw std::runtime_error("a fixture has text that is not base64: " + text);
  bytes.resize(size);
  return bytes;
}

// Of {"errno": 13}, {"text": "..."}, {"base64": "..."}, {"target": "..."}, {}.
Answer parsed(const SortedJson& entry) {
  if (entry.contains("errno")) return {.error = entry.at("errno").get<int>(), .value = {}};
  if (entry.contains("base64"))
    return {.error = 0, .value = decoded(entry.at("base64").get<std::string>())};
  return {.error = 0, .value = entry.value("text", entry.value("target", std::string()))};
}

Names parsed_names(const SortedJson& entry) {
  if (entry.contains("errno")) return {.error = entry.at("errno").get<int>(), .values = {}};
  return {.error = 0, .values = entry.at("names").get<std::vector<std::string>>()};
}

// What is not there implies no name.
template <class T>
void add_implied(const std::map<std::string, T>& entries, const std::string& folder,
                 std::set<std::string>& names) {
  const std::string prefix = folder + "/";
  for (auto at = entries.lower_bound(prefix); at != entries.end(); ++at) {
    const auto& [path, entry] = *at;
    if (!path.starts_with(prefix)) return;
    if (entry.error != ENOENT)
      names.insert(path.substr(prefix.size(), path.find('/', prefix.size()) - prefix.size()));
  }
}

}  // namespace

std::vector<std::string> fixture_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(HBMWIRE_DOCTOR_FIXTURES)) {
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

SortedJson fixture_file(const std::string& name, const std::string& file) {
  const std::string path = std::string(HBMWIRE_DOCTOR_FIXTURES) + "/" + name + "/" + file;
  std::ifstream in(path);
  if (!in) throw std::runtime_error("there is no " + path);
  return SortedJson::parse(in);
}

SortedJson fixture_archive(const std::string& name) {
  SortedJson own = fixture_file(name, "machine.json");
  if (!own.contains("like")) return own;
  SortedJson archive = fixture_archive(own.at("like").get<std::string>());
  own.erase("like");
  for (const auto& [kind, entries] : own.items()) {
    if (!entries.is_object()) {
      archive[kind] = entries;
      continue;
    }
    SortedJson& merged = archive[kind];
    for (const auto& [key, entry] : entries.items()) {
      if (entry.is_null()) {
        merged.erase(key);
      } else {
        merged[key] = entry;
      }
    }
  }
  return archive;
}

FixtureMachine::FixtureMachine(const SortedJson& archive) : calls_(Json::object()) {
  for (const auto& [kind, entries] : archive.items()) {
    if (kind == "calls") {
      calls_ = entries;
    } else if (entries.is_object()) {
      for (const auto& [path, entry] : entries.items()) {
        if (kind == "folders") {
          folders_[path] = parsed_names(entry);
        } else {
          answers_[kind][path] = parsed(entry);
        }
      }
    }
  }
}

Answer FixtureMachine::answer(const std::string& kind, const std::string& path) const {
  const auto answers = answers_.find(kind);
  if (answers == answers_.end()) return {.error = ENOENT, .value = {}};
  const auto found = answers->second.find(path);
  return found != answers->second.end() ? found->second : Answer{.error = ENOENT, .value = {}};
}

Names FixtureMachine::folder(const std::string& path) {
  if (const auto listed = folders_.find(path); listed != folders_.end()) return listed->second;
  std::set<std::string> names;
  for (const auto& [kind, answers] : answers_) add_implied(answers, path, names);
  add_implied(folders_, path, names);
  if (names.empty()) return {.error = ENOENT, .values = {}};
  return {.error = 0, .values = {names.begin(), names.end()}};
}

Json FixtureMachine::call(const std::string& name) {
  const auto found = calls_.find(name);
  return found == calls_.end() ? Json{{"error", ENOSYS}} : *found;
}

}  // namespace hbmwire::tools::doctor
