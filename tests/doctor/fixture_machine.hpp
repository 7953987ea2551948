// SPDX-License-Identifier: MIT
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/doctor/evidence/evidence.hpp"

namespace hbmwire::tools::doctor {

/// Finds one key among thousands faster than Json, which keeps their order.
using SortedJson = nlohmann::json;

/// The names of all fixtures: folders of tests/doctor/fixtures.
[[nodiscard]] std::vector<std::string> fixture_names();

/// A file of a fixture: "machine.json", "expected.json".
[[nodiscard]] SortedJson fixture_file(const std::string& name, const std::string& file);

/// The archive that a fixture's machine.json is. With "like": "OTHER" it is the one of another
/// fixture, with entries of its own in place of the other's; null takes an entry away.
[[nodiscard]] SortedJson fixture_archive(const std::string& name);

/// A machine as an archive has it.
class FixtureMachine final : public Evidence {
 public:
  explicit FixtureMachine(const SortedJson& archive);

  Answer file(const std::string& path) override { return answer("files", path); }

  Names folder(const std::string& path) override;

  Answer link(const std::string& path) override { return answer("links", path); }

  Answer real_path(const std::string& path) override { return answer("real_paths", path); }

  Answer access(const std::string& path) override { return answer("access", path); }

  Json call(const std::string& name) override;

 private:
  using Answers = std::map<std::string, Answer>;

  [[nodiscard]] Answer answer(const std::string& kind, const std::string& path) const;

  std::map<std::string, Answers> answers_;  // by kind: "files", "links", ...
  std::map<std::string, Names> folders_;
  Json calls_;
};

}  // namespace hbmwire::tools::doctor
