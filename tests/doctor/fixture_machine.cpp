// SPDX-License-Identifier: MIT
#include "tests/doctor/fixture_machine.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "tools/doctor/evidence/archive.hpp"

namespace hbmwire::tools::doctor {
namespace {

SortedJson archive_of(const std::string& name) {
  SortedJson own = fixture_file(name, "machine.json");
  if (!own.contains("like")) return own;
  SortedJson archive = archive_of(own.at("like").get<std::string>());
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

std::unique_ptr<Evidence> fixture_machine(const std::string& name) {
  auto record = record_of(archive_of(name).dump(), name);
  if (!record) throw std::runtime_error(record.error().text);
  return std::make_unique<Archive>(std::move(*record));
}

}  // namespace hbmwire::tools::doctor
