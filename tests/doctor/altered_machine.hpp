// SPDX-License-Identifier: MIT
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "tests/doctor/fixture_machine.hpp"

namespace hbmwire::tools::doctor {

/// The machine of a fixture, with different answers to some questions.
class AlteredMachine final : public Evidence {
 public:
  explicit AlteredMachine(const std::string& fixture) : machine_(fixture_machine(fixture)) {}

  Answer file(const std::string& path) override {
    const auto found = files.find(path);
    return found == files.end() ? machine_->file(path) : found->second;
  }

  Names folder(const std::string& path) override {
    const auto found = folders.find(path);
    return found == folders.end() ? machine_->folder(path) : found->second;
  }

  Answer link(const std::string& path) override {
    const auto found = links.find(path);
    return found == links.end() ? machine_->link(path) : found->second;
  }

  Answer real_path(const std::string& path) override { return machine_->real_path(path); }

  Answer access(const std::string& path) override { return machine_->access(path); }

  Json call(const std::string& name) override {
    const auto found = calls.find(name);
    return found == calls.end() ? machine_->call(name) : found->second;
  }

  /// Changes "info" at a JSON pointer: "/nics/0/ports/0/mtu_bytes".
  void set_info(const std::string& pointer, const Json& value) {
    Json info = call("info");
    info["value"][Json::json_pointer(pointer)] = value;
    calls["info"] = std::move(info);
  }

  std::map<std::string, Answer> files;
  std::map<std::string, Names> folders;
  std::map<std::string, Answer> links;
  std::map<std::string, Json> calls;

 private:
  std::unique_ptr<Evidence> machine_;
};

}  // namespace hbmwire::tools::doctor
