// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "tools/doctor/evidence/packed_bytes.hpp"
#include "tools/doctor/evidence/parsed_json.hpp"
#include "tools/doctor/evidence/rdma_topo.hpp"
#include "tools/doctor/evidence/record.hpp"
#include "tools/wire/messages.hpp"

namespace hbmwire::tools::doctor {
namespace {

constexpr int kMaxErrno = 4095;  // the kernel's highest errno, include/linux/err.h
constexpr int kNewestVersion = 1;

/// Fills a record from an archive's JSON, and remembers the first fault.
class RecordParser {
 public:
  explicit RecordParser(const SortedJson& json) : json_(json) {}

  Foreign<Record> parse() {
    read_head();
    read_answers("files", record_.files, &RecordParser::file_value);
    read_answers("links", record_.links, &RecordParser::target_value);
    read_answers("real_paths", record_.real_paths, &RecordParser::target_value);
    read_answers("access", record_.access, &RecordParser::access_value);
    read_folders();
    read_calls();
    if (!problem_.empty()) return tl::make_unexpected(problem_);
    return std::move(record_);
  }

 private:
  using Value = std::optional<std::string> (RecordParser::*)(const SortedJson& entry);

  template <class... Arguments>
  void refuse(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    if (problem_.empty()) problem_ = fmt::format(format, std::forward<Arguments>(arguments)...);
  }

  static const SortedJson* find(const SortedJson& object, const char* key) {
    const auto at = object.find(key);
    return at != object.end() ? &*at : nullptr;
  }

  void read_head() {
    const SortedJson* const format = find(json_, "format");
    if (format == nullptr || *format != "hbmwire doctor")
      return refuse("its format is not \"hbmwire doctor\"");
    const SortedJson* const version = find(json_, "version");
    if (version == nullptr || !version->is_number_integer() || *version != kNewestVersion)
      return refuse("its version is not {}, the one that this hbmwire reads", kNewestVersion);
    record_.emulated = truth("emulated");
    record_.partial = truth("partial");
    const SortedJson* const hbmwire = find(json_, "hbmwire");
    if (hbmwire != nullptr && !hbmwire->is_string()) return refuse("its \"hbmwire\" is no text");
    if (hbmwire != nullptr) record_.version = hbmwire->get<std::string>();
  }

  bool truth(const char* key) {
    const SortedJson* const value = find(json_, key);
    if (value != nullptr && !value->is_boolean())
      refuse("its \"{}\" is neither true nor false", key);
    return value != nullptr && value->is_boolean() && value->get<bool>();
  }

  /// The object with that name; an empty one if there is none.
  const SortedJson& section(const char* name) {
    static const SortedJson kEmpty = SortedJson::object();
    const SortedJson* const object = find(json_, name);
    if (object == nullptr) return kEmpty;
    if (object->is_object()) return *object;
    refuse("its \"{}\" is no object", name);
    return kEmpty;
  }

  bool is_entry(const char* name, const std::string& key, const SortedJson& entry) {
    if (++entries_ > kMaxEntries) refuse("it has more than {} entries", kMaxEntries);
    if (!entry.is_object()) refuse("{} {} is no object", name, key);
    return problem_.empty();
  }

  bool is_path(const char* name, const std::string& path) {
    const bool good = path.starts_with('/') && path.find('\0') == std::string::npos &&
                      (path.size() == 1 || !path.ends_with('/'));
    if (!good) refuse("{} {} is no absolute path", name, path);
    return good;
  }

  /// The errno of an entry; empty if the entry has a value instead.
  std::optional<int> error_of(const SortedJson& entry, const char* key) {
    const SortedJson* const error = find(entry, key);
    if (error == nullptr) return std::nullopt;
    if (error->is_number_integer() && *error > 0 && *error <= kMaxErrno) return error->get<int>();
    refuse("an \"{}\" is no error number", key);
    return 0;
  }

  void read_answers(const char* name, std::map<std::string, Answer>& to, Value value_of) {
    for (const auto& [path, entry] : section(name).items()) {
      if (!is_entry(name, path, entry) || !is_path(name, path)) return;
      Answer answer;
      if (const auto error = error_of(entry, "errno")) {
        answer.error = *error;
      } else if (auto value = (this->*value_of)(entry)) {
        answer.value = std::move(*value);
      } else {
        refuse("{} {} has no answer that can be read", name, path);
      }
      if (!problem_.empty()) return;
      to.emplace(path, std::move(answer));
    }
  }

  std::optional<std::string> file_value(const SortedJson& entry) {
    std::optional<std::string> bytes;
    if (const SortedJson* const text = find(entry, "text"); text != nullptr && text->is_string())
      bytes = text->get<std::string>();
    if (const SortedJson* const coded = find(entry, "base64");
        coded != nullptr && coded->is_string())
      bytes = from_base64(coded->get_ref<const std::string&>());
    if (const SortedJson* const packed = find(entry, "zlib");
        packed != nullptr && packed->is_string())
      bytes = unpack(packed->get_ref<const std::string&>());
    if (bytes && bytes->size() > kMaxFileBytes)
      refuse("it has a file of more than {} bytes", kMaxFileBytes);
    return bytes;
  }

  std::optional<std::string> unpack(const std::string& coded) {
    const auto packed = from_base64(coded);
    if (!packed) return std::nullopt;
    Inflated file = inflated(*packed, kMaxFileBytes);
    if (file.state == Inflation::truncated)
      refuse("it has a file of more than {} bytes", kMaxFileBytes);
    if (file.state != Inflation::whole) return std::nullopt;
    return std::move(file.bytes);
  }

  std::optional<std::string> target_value(const SortedJson& entry) {
    const SortedJson* const target = find(entry, "target");
    if (target == nullptr || !target->is_string()) return std::nullopt;
    return target->get<std::string>();
  }

  std::optional<std::string> access_value(const SortedJson& entry) {
    if (!entry.empty()) return std::nullopt;  // {} means that access is allowed
    return std::string();
  }

  void read_folders() {
    for (const auto& [path, entry] : section("folders").items()) {
      if (!is_entry("folders", path, entry) || !is_path("folders", path)) return;
      Names names;
      if (const auto error = error_of(entry, "errno")) {
        names.error = *error;
      } else {
        read_names(path, entry, names.values);
      }
      if (!problem_.empty()) return;
      record_.folders.emplace(path, std::move(names));
    }
  }

  void read_names(const std::string& path, const SortedJson& entry,
                  std::vector<std::string>& names) {
    const SortedJson* const list = find(entry, "names");
    if (list == nullptr || !list->is_array())
      return refuse("folders {} has no answer that can be read", path);
    entries_ += list->size();
    if (entries_ > kMaxEntries) return refuse("it has more than {} entries", kMaxEntries);
    for (const SortedJson& name : *list) {
      if (!is_name(name)) return refuse("folders {} has a name that no file can have", path);
      names.push_back(name.get<std::string>());
    }
    std::ranges::sort(names);
  }

  static bool is_name(const SortedJson& json) {
    if (!json.is_string()) return false;
    const auto& name = json.get_ref<const std::string&>();
    return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
           name.find('\0') == std::string::npos;
  }

  void read_calls() {
    for (const auto& [name, entry] : section("calls").items()) {
      if (!is_entry("calls", name, entry)) return;
      const bool failed = error_of(entry, "error").has_value();
      if (failed == entry.contains("value"))
        refuse(R"(calls {} has neither a "value" nor an "error" alone)", name);
      if (!problem_.empty()) return;
      record_.calls.emplace(name, Json(entry));
    }
  }

  const SortedJson& json_;
  Record record_;
  std::string problem_;
  std::size_t entries_ = 0;
};

}  // namespace

Outcome<Record> record_of(std::string_view text, const std::string& name) {
  // A name in the file may be as long as the file. The message shows its beginning and the fault.
  constexpr std::size_t kBegin = 120;
  constexpr std::size_t kEnd = 80;
  const auto refuse = [&](const std::string& reason) {
    const std::string why =
        reason.size() <= kBegin + kEnd
            ? reason
            : reason.substr(0, kBegin) + "..." + reason.substr(reason.size() - kEnd);
    return fail(
        fmt::format("replay: {} can't be read as a machine: {}; write it anew with `hbmwire doctor "
                    "--save FILE` or `rdma_topo dump` on that machine",
                    name, wire::printable(why)));
  };
  if (text.size() > kMaxArchiveBytes)
    return refuse(fmt::format("it has more than {} bytes", kMaxArchiveBytes));
  const auto json = parse_bounded(text);
  if (!json) return refuse(json.error());
  if (!json->is_object() && !json->is_array()) return refuse("it is neither an object nor a list");
  auto record = json->is_array() ? record_of_rdma_topo(*json) : RecordParser(*json).parse();
  if (!record) return refuse(record.error());
  return std::move(*record);
}

}  // namespace hbmwire::tools::doctor
