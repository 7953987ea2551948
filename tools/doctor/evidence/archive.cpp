// SPDX-License-Identifier: MIT
#include "tools/doctor/evidence/archive.hpp"

#include <cerrno>
#include <set>

namespace hbmwire::tools::doctor {
namespace {

// Adds the names in `folder` that its paths imply. A path that does not exist implies none.
template <class T>
void add_names_below(const std::map<std::string, T>& paths, const std::string& folder,
                     std::set<std::string>& names) {
  const std::string prefix = folder == "/" ? folder : folder + "/";
  for (auto at = paths.lower_bound(prefix); at != paths.end(); ++at) {
    const auto& [path, answer] = *at;
    if (!path.starts_with(prefix)) return;
    if (path.size() == prefix.size() || answer.error == ENOENT) continue;
    const std::size_t end = path.find('/', prefix.size());
    names.insert(path.substr(prefix.size(), end - prefix.size()));
  }
}

}  // namespace

int Archive::unlisted() const noexcept { return record_.partial ? EPERM : ENOENT; }

Answer Archive::answer(const std::map<std::string, Answer>& answers,
                       const std::string& path) const {
  const auto at = answers.find(path);
  return at != answers.end() ? at->second : Answer{.error = unlisted(), .value = {}};
}

Answer Archive::file(const std::string& path) { return answer(record_.files, path); }

Answer Archive::link(const std::string& path) { return answer(record_.links, path); }

Answer Archive::real_path(const std::string& path) { return answer(record_.real_paths, path); }

Answer Archive::access(const std::string& path) { return answer(record_.access, path); }

Names Archive::folder(const std::string& path) {
  if (const auto at = record_.folders.find(path); at != record_.folders.end()) return at->second;
  if (record_.partial) return {.error = EPERM, .values = {}};
  std::set<std::string> names;
  add_names_below(record_.files, path, names);
  add_names_below(record_.links, path, names);
  add_names_below(record_.real_paths, path, names);
  add_names_below(record_.access, path, names);
  add_names_below(record_.folders, path, names);
  if (names.empty()) return {.error = ENOENT, .values = {}};
  return {.error = 0, .values = {names.begin(), names.end()}};
}

Json Archive::call(const std::string& name) {
  const auto at = record_.calls.find(name);
  return at != record_.calls.end() ? at->second : Json{{"error", ENOSYS}};
}

}  // namespace hbmwire::tools::doctor
