// SPDX-License-Identifier: MIT
#include "tools/doctor/evidence/parsed_json.hpp"

#include <fmt/format.h>

#include "tools/doctor/evidence/record.hpp"

namespace hbmwire::tools::doctor {
namespace {

/// Checks each value before any is stored. The parser stops when a member function returns false.
/// The names of the functions are those of nlohmann::json_sax.
class LimitCheck final : public nlohmann::json_sax<SortedJson> {
 public:
  [[nodiscard]] const std::string& problem() const noexcept { return problem_; }

  bool null() override { return count(); }

  bool boolean(bool) override { return count(); }

  bool number_integer(number_integer_t) override { return count(); }

  bool number_unsigned(number_unsigned_t) override { return count(); }

  bool number_float(number_float_t, const string_t&) override { return count(); }

  bool binary(binary_t&) override { return refuse("it has binary data"); }

  bool string(string_t& text) override {
    if (text.size() > kMaxTextBytes)
      return refuse(fmt::format("it has a text of more than {} bytes", kMaxTextBytes));
    return count();
  }

  bool key(string_t& text) override {
    return text.size() <= kMaxPathBytes ||
           refuse(fmt::format("it has a key of more than {} bytes", kMaxPathBytes));
  }

  bool start_object(std::size_t) override { return enter(); }

  bool start_array(std::size_t) override { return enter(); }

  bool end_object() override { return leave(); }

  bool end_array() override { return leave(); }

  bool parse_error(std::size_t at, const std::string&,
                   const nlohmann::detail::exception&) override {
    return refuse(fmt::format("it is no JSON from byte {} on", at));
  }

 private:
  bool refuse(std::string why) {
    if (problem_.empty()) problem_ = std::move(why);
    return false;
  }

  bool count() {
    return ++values_ <= kMaxValues || refuse(fmt::format("it has more than {} values", kMaxValues));
  }

  bool enter() {
    if (++depth_ > kMaxDepth)
      return refuse(fmt::format("it is nested more than {} deep", kMaxDepth));
    return count();
  }

  bool leave() {
    --depth_;
    return true;
  }

  std::string problem_;
  std::size_t values_ = 0;
  std::size_t depth_ = 0;
};

}  // namespace

Foreign<SortedJson> parse_bounded(std::string_view text) {
  // The parser takes a zero byte for the end of the text.
  if (text.find('\0') != std::string_view::npos)
    return tl::make_unexpected(std::string("it has a byte 0, and is no text"));
  LimitCheck limits;
  if (!SortedJson::sax_parse(text, &limits)) return tl::make_unexpected(limits.problem());
  SortedJson json = SortedJson::parse(text, nullptr, false);
  if (json.is_discarded()) return tl::make_unexpected(std::string("it is no JSON"));
  return json;
}

}  // namespace hbmwire::tools::doctor
