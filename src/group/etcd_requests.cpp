// SPDX-License-Identifier: MIT
#include "group/etcd_requests.hpp"

#include <sodium.h>

#include <charconv>
#include <chrono>
#include <optional>
#include <utility>

#include "base/log.hpp"
#include <nlohmann/json.hpp>

namespace hbmwire::detail {

namespace {

using Json = nlohmann::json;

constexpr long kHttpOk = 200;
constexpr std::chrono::seconds kLeaseTime(10);
constexpr int kBase64 = sodium_base64_VARIANT_ORIGINAL;
constexpr int kGrpcNotFound = 5;  // of google.rpc.Code

std::string to_base64(std::string_view bytes) {
  std::string text(sodium_base64_encoded_len(bytes.size(), kBase64), '\0');
  sodium_bin2base64(text.data(), text.size(), reinterpret_cast<const unsigned char*>(bytes.data()),
                    bytes.size(), kBase64);
  text.pop_back();  // the NUL
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  std::string bytes(text.size() / 4 * 3 + 3, '\0');  // three for four letters, rounded up
  std::size_t size = 0;
  if (sodium_base642bin(reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(), text.data(),
                        text.size(), nullptr, &size, nullptr, kBase64) != 0)
    return std::nullopt;
  bytes.resize(size);
  return bytes;
}

/// The member of an object; null if there is none.
const Json& member_of(const Json& object, const char* name) {
  static const auto& none = *new Json();
  if (!object.is_object()) return none;
  const auto found = object.find(name);
  return found == object.end() ? none : *found;
}

/// A number, which the gateway writes as text.
std::optional<std::int64_t> number_of(const Json& value) {
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (!value.is_string()) return std::nullopt;
  const auto& text = value.get_ref<const std::string&>();
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return number;
}

/// The JSON object in an answer's body; null if the body is no object.
Json json_of(const std::string& body) {
  Json answer = Json::parse(body, nullptr, false);
  return answer.is_object() ? answer : Json();
}

std::string lease_body(std::int64_t lease) { return Json{{"ID", std::to_string(lease)}}.dump(); }

}  // namespace

EtcdRequests::EtcdRequests(std::unique_ptr<HttpClient> http, const MeetingName& meeting)
    : http_(std::move(http)),
      subject_(meeting.text),
      url_(std::string(meeting.tls ? "https://" : "http://") +
           join_host_port(meeting.at.host, meeting.at.port) + "/v3/"),
      key_(to_base64(meeting.path + "/meeting")) {}

Result<std::int64_t> EtcdRequests::grant_lease(const Wait& wait) {
  HBMWIRE_TRY_ASSIGN(
      const HttpAnswer answer,
      ask("lease/grant", Json{{"TTL", std::to_string(kLeaseTime.count())}}.dump(), wait));
  if (answer.status != kHttpOk) return refused(answer);
  const auto lease = number_of(member_of(json_of(answer.body), "ID"));
  if (!lease || *lease == 0) return not_etcd();
  return *lease;
}

Result<bool> EtcdRequests::renew_lease(std::int64_t lease, const Wait& wait) {
  HBMWIRE_TRY_ASSIGN(const HttpAnswer answer, ask("lease/keepalive", lease_body(lease), wait));
  if (answer.status != kHttpOk) return refused(answer);
  const Json body = json_of(answer.body);
  const Json& result = member_of(body, "result");
  if (number_of(member_of(result, "ID")) != lease) return not_etcd();
  // An expired lease has 0 seconds left, a value that the gateway leaves out.
  return number_of(member_of(result, "TTL")).value_or(0) > 0;
}

Result<void> EtcdRequests::revoke_lease(std::int64_t lease, const Wait& wait) {
  HBMWIRE_TRY_ASSIGN(const HttpAnswer answer, ask("lease/revoke", lease_body(lease), wait));
  const bool is_gone =
      number_of(member_of(json_of(answer.body), "code")) == std::int64_t{kGrpcNotFound};
  if (answer.status != kHttpOk && !is_gone) return refused(answer);
  return {};
}

Result<bool> EtcdRequests::make_key(std::int64_t lease, const std::string& value,
                                    const Wait& wait) {
  // The creation revision of a key that does not exist is 0.
  const Json compare = {
      {"key", key_}, {"target", "CREATE"}, {"result", "EQUAL"}, {"create_revision", "0"}};
  return put_if(compare.dump(), lease, value, wait);
}

Result<bool> EtcdRequests::change_key(std::int64_t lease, const std::string& value,
                                      const Wait& wait) {
  const Json compare = {
      {"key", key_}, {"target", "LEASE"}, {"result", "EQUAL"}, {"lease", std::to_string(lease)}};
  return put_if(compare.dump(), lease, value, wait);
}

Result<bool> EtcdRequests::put_if(const std::string& compare, std::int64_t lease,
                                  const std::string& value, const Wait& wait) {
  const Json put = {
      {"request_put",
       {{"key", key_}, {"value", to_base64(value)}, {"lease", std::to_string(lease)}}}};
  Json body;
  body["compare"] = Json::array({Json::parse(compare, nullptr, false)});  // false: never throws
  body["success"] = Json::array({put});
  HBMWIRE_TRY_ASSIGN(const HttpAnswer answer, ask("kv/txn", body.dump(), wait));
  if (answer.status != kHttpOk) return refused(answer);
  const Json said = json_of(answer.body);
  if (!member_of(said, "header").is_object()) return not_etcd();
  const Json& succeeded = member_of(said, "succeeded");
  return succeeded.is_boolean() && succeeded.get<bool>();
}

Result<std::string> EtcdRequests::read_key(const Wait& wait) {
  HBMWIRE_TRY_ASSIGN(const HttpAnswer answer, ask("kv/range", Json{{"key", key_}}.dump(), wait));
  if (answer.status != kHttpOk) return refused(answer);
  const Json said = json_of(answer.body);
  if (!member_of(said, "header").is_object()) return not_etcd();
  const Json& keys = member_of(said, "kvs");
  if (!keys.is_array() || keys.empty()) return {};
  const Json& value = member_of(keys[0], "value");
  if (value.is_null()) return {};  // the gateway leaves out a value of no bytes
  if (!value.is_string()) return not_etcd();
  auto bytes = from_base64(value.get_ref<const std::string&>());
  if (!bytes) return not_etcd();
  return *std::move(bytes);
}

Result<HttpAnswer> EtcdRequests::ask(const char* call, const std::string& body, const Wait& wait) {
  return http_->post(url_ + call, body, wait, subject_);
}

tl::unexpected<Error> EtcdRequests::refused(const HttpAnswer& answer) const {
  constexpr long kUnauthorized = 401;
  constexpr long kForbidden = 403;
  constexpr std::size_t kShown = 200;
  log_line(LogLevel::debug, [&] {
    return subject_ + ": HTTP status " + std::to_string(answer.status) + ": " +
           answer.body.substr(0, kShown);
  });
  if (answer.status == kUnauthorized || answer.status == kForbidden ||
      answer.body.find("user name is empty") != std::string::npos) {
    return tl::make_unexpected(
        make_error(Errc::permission_denied, Stage::connect,
                   "etcd wants a user, and hbmwire has none: allow it without, or meet elsewhere",
                   subject_, Hint::group_launcher));
  }
  // "error" up to version 3.5; newer gateways have "message" alone.
  const Json body = json_of(answer.body);
  if (!member_of(body, "error").is_string() && !member_of(body, "message").is_string())
    return not_etcd();
  return tl::make_unexpected(make_error(Errc::peer_failed, Stage::connect,
                                        "etcd refuses the request (its log says why)", subject_,
                                        Hint::group_launcher));
}

tl::unexpected<Error> EtcdRequests::not_etcd() const {
  return tl::make_unexpected(make_error(Errc::protocol, Stage::connect,
                                        "the server's answer is none of etcd's (3.4 or newer)",
                                        subject_, Hint::group_launcher));
}

}  // namespace hbmwire::detail
