// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/doctor/evidence/evidence.hpp"
#include "tools/doctor/evidence/parsed_json.hpp"

namespace hbmwire::tools::doctor {

/// The names of all fixtures: the folders of tests/doctor/fixtures.
[[nodiscard]] std::vector<std::string> fixture_names();

/// A file of a fixture: "machine.json", "expected.json".
[[nodiscard]] SortedJson fixture_file(const std::string& name, const std::string& file);

/// The machine of a fixture. Its machine.json is an archive of the doctor. With "like": "OTHER" it
/// is the machine of another fixture, with its own entries instead of the other's; null removes an
/// entry.
[[nodiscard]] std::unique_ptr<Evidence> fixture_machine(const std::string& name);

}  // namespace hbmwire::tools::doctor
