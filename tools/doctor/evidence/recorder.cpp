// SPDX-License-Identifier: MIT
#include "tools/doctor/evidence/recorder.hpp"

#include "hbmwire/version.hpp"

namespace hbmwire::tools::doctor {
namespace {

template <class T, class Ask>
const T& first_answer(std::map<std::string, T>& answers, const std::string& question, Ask ask) {
  const auto at = answers.find(question);
  return at != answers.end() ? at->second : answers.emplace(question, ask()).first->second;
}

}  // namespace

Recorder::Recorder(Evidence& machine) : machine_(machine) {
  record_.version = to_string(version());
  record_.emulated = is_emulated();
  record_.partial = true;
}

Answer Recorder::file(const std::string& path) {
  return first_answer(record_.files, path, [&] { return machine_.file(path); });
}

Names Recorder::folder(const std::string& path) {
  return first_answer(record_.folders, path, [&] { return machine_.folder(path); });
}

Answer Recorder::link(const std::string& path) {
  return first_answer(record_.links, path, [&] { return machine_.link(path); });
}

Answer Recorder::real_path(const std::string& path) {
  return first_answer(record_.real_paths, path, [&] { return machine_.real_path(path); });
}

Answer Recorder::access(const std::string& path) {
  return first_answer(record_.access, path, [&] { return machine_.access(path); });
}

Json Recorder::call(const std::string& name) {
  return first_answer(record_.calls, name, [&] { return machine_.call(name); });
}

}  // namespace hbmwire::tools::doctor
