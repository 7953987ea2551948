// SPDX-License-Identifier: MIT
#include "tools/doctor/evidence/record.hpp"

#include <algorithm>

#include "tools/common/text_file.hpp"
#include "tools/doctor/evidence/packed_bytes.hpp"
#include "tools/doctor/evidence/parsed_json.hpp"

namespace hbmwire::tools::doctor {
namespace {

constexpr int kArchiveVersion = 1;

// Plain text stays readable in the archive. JSON cannot hold other bytes.
bool is_plain_text(std::string_view bytes) {
  return std::ranges::all_of(
      bytes, [](char c) { return c == '\n' || c == '\t' || (c >= ' ' && c <= '~'); });
}

SortedJson bytes_json(const std::string& bytes) {
  if (is_plain_text(bytes)) return {{"text", bytes}};
  const std::string packed = deflated(bytes);
  if (!packed.empty() && packed.size() < bytes.size()) return {{"zlib", to_base64(packed)}};
  return {{"base64", to_base64(bytes)}};
}

SortedJson errno_json(int error) { return {{"errno", error}}; }

SortedJson files_json(const std::map<std::string, Answer>& files) {
  SortedJson json = SortedJson::object();
  for (const auto& [path, answer] : files)
    json[path] = answer.error != 0 ? errno_json(answer.error) : bytes_json(answer.value);
  return json;
}

SortedJson targets_json(const std::map<std::string, Answer>& targets) {
  SortedJson json = SortedJson::object();
  for (const auto& [path, answer] : targets) {
    json[path] =
        answer.error != 0 ? errno_json(answer.error) : SortedJson{{"target", answer.value}};
  }
  return json;
}

SortedJson access_json(const std::map<std::string, Answer>& nodes) {
  SortedJson json = SortedJson::object();
  for (const auto& [path, answer] : nodes)
    json[path] = answer.error != 0 ? errno_json(answer.error) : SortedJson::object();
  return json;
}

SortedJson folders_json(const std::map<std::string, Names>& folders) {
  SortedJson json = SortedJson::object();
  for (const auto& [path, names] : folders)
    json[path] = names.error != 0 ? errno_json(names.error) : SortedJson{{"names", names.values}};
  return json;
}

}  // namespace

Json sorted(const Json& value) {
  Json result = SortedJson(value);
  return result;
}

std::string archive_text(const Record& record) {
  SortedJson calls = SortedJson::object();
  for (const auto& [name, answer] : record.calls) calls[name] = SortedJson(answer);
  // The format comes first in the file.
  Json json{{"format", "hbmwire doctor"},
            {"version", kArchiveVersion},
            {"hbmwire", record.version},
            {"emulated", record.emulated},
            {"partial", record.partial}};
  json["calls"] = Json(calls);
  json["files"] = Json(files_json(record.files));
  json["links"] = Json(targets_json(record.links));
  json["real_paths"] = Json(targets_json(record.real_paths));
  json["folders"] = Json(folders_json(record.folders));
  json["access"] = Json(access_json(record.access));
  // Names of files may hold any byte, but JSON is UTF-8.
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Outcome<Record> read_record(const std::string& path) {
  HBMWIRE_TRY_ASSIGN(const std::string text, read_text_file(path, kMaxArchiveBytes));
  return record_of(text, path);
}

}  // namespace hbmwire::tools::doctor
