// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tools/common/output.hpp"

namespace hbmwire::tools::perf {

/// Takes values out of an object, and notes the first one that is missing or invalid in `problem`.
class JsonFields {
 public:
  JsonFields(const Json& object, std::string where, std::string& problem)
      : object_(object), where_(std::move(where)), problem_(problem) {
    if (!object_.is_object()) fail("is no object");
  }

  // A value that is missing or invalid is noted, and reads as empty, false or 0.

  [[nodiscard]] std::string text(const char* key) {
    const Json* const value = find(key);
    if (value != nullptr && value->is_string()) return value->get<std::string>();
    return wrong<std::string>(key, "no text");
  }

  [[nodiscard]] bool truth(const char* key) {
    const Json* const value = find(key);
    return value != nullptr && value->is_boolean() ? value->get<bool>()
                                                   : wrong<bool>(key, "neither true nor false");
  }

  [[nodiscard]] std::uint64_t count(const char* key) {
    const Json* const value = find(key);
    const bool good = value != nullptr && value->is_number_integer() &&
                      (value->is_number_unsigned() || value->get<std::int64_t>() >= 0);
    return good ? value->get<std::uint64_t>() : wrong<std::uint64_t>(key, "no count");
  }

  /// A number from 0 to 1e30. Larger ones could make sums overflow; JSON has no infinity.
  [[nodiscard]] double amount(const char* key) {
    constexpr double kMost = 1e30;
    const Json* const value = find(key);
    if (value == nullptr || !value->is_number()) return wrong<double>(key, "no number");
    const auto number = value->get<double>();
    return number >= 0 && number <= kMost ? number : wrong<double>(key, "out of range");
  }

  /// A count below `end`.
  [[nodiscard]] std::uint64_t index(const char* key, std::uint64_t end) {
    const std::uint64_t value = count(key);
    return value < end ? value : wrong<std::uint64_t>(key, "out of range");
  }

  /// The element `index` of a list, which must exist. Problems name it as "rows[3]".
  [[nodiscard]] JsonFields item(const char* key, std::size_t index) {
    return {list(key)[index], path_of(key) + "[" + std::to_string(index) + "]", problem_};
  }

  [[nodiscard]] std::vector<std::string> texts(const char* key) {
    std::vector<std::string> all;
    for (const Json& one : list(key)) {
      if (one.is_string()) {
        all.push_back(one.get<std::string>());
      } else {
        static_cast<void>(wrong<bool>(key, "no list of texts"));
      }
    }
    return all;
  }

  /// Notes a problem unless the document has this format and version. Each read may note one itself
  /// (a missing value), which must stay.
  void expect_format(const char* format, std::uint64_t version) {
    if (problem_.empty() && text("format") != format && problem_.empty())
      problem_ = "its format is another one";
    if (problem_.empty() && count("version") != version && problem_.empty())
      problem_ = "its version is another one";
  }

  /// Notes that a value of the right type is none of the known ones: "state is `what`".
  void refuse(const char* key, const char* what) { static_cast<void>(wrong<bool>(key, what)); }

  [[nodiscard]] bool is_null(const char* key) const {
    return object_.is_object() && object_.contains(key) && object_[key].is_null();
  }

  [[nodiscard]] JsonFields object(const char* key) {
    const Json* const value = find(key);
    return {value != nullptr ? *value : nothing(), path_of(key), problem_};
  }

  [[nodiscard]] const Json& list(const char* key) {
    const Json* const value = find(key);
    if (value != nullptr && value->is_array()) return *value;
    static_cast<void>(wrong<bool>(key, "no list"));
    return nothing();
  }

 private:
  static const Json& nothing() {
    static const Json null;
    return null;
  }

  [[nodiscard]] const Json* find(const char* key) const {
    return object_.is_object() && object_.contains(key) ? &object_[key] : nullptr;
  }

  [[nodiscard]] std::string path_of(const char* key) const {
    return where_.empty() ? key : where_ + "." + key;
  }

  template <class T>
  T wrong(const char* key, const char* what) {
    const bool there = find(key) != nullptr;
    if (problem_.empty())
      problem_ = path_of(key) + (there ? std::string(" is ") + what : " is missing");
    return T{};
  }

  void fail(const char* what) {
    if (problem_.empty()) problem_ = (where_.empty() ? "it" : where_) + " " + what;
  }

  const Json& object_;
  std::string where_;
  std::string& problem_;
};

}  // namespace hbmwire::tools::perf
