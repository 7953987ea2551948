// SPDX-License-Identifier: MIT
#include "tools/perf/all/telling.hpp"

#include <sodium.h>

#include <array>
#include <cmath>
#include <string_view>

#include "tools/common/output.hpp"

namespace hbmwire::tools::perf::all {
namespace {

constexpr std::size_t kMostText = 16384;  // bytes of one text, a key among them

Bytes bytes_of(const Json& json) {
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  const auto* const first = reinterpret_cast<const std::byte*>(text.data());
  return {first, first + text.size()};
}

/// An array, or nothing.
std::optional<Json> array_in(std::span<const std::byte> bytes) {
  const auto* const first = reinterpret_cast<const char*>(bytes.data());
  Json json = Json::parse(first, first + bytes.size(), nullptr, false);
  if (!json.is_array()) return std::nullopt;
  return json;
}

std::string text_of(const Json& json) {
  return json.is_string() ? json.get_ref<const std::string&>().substr(0, kMostText) : std::string();
}

std::string text_in(const Json& object, const char* key) {
  if (!object.is_object()) return {};
  const auto found = object.find(key);
  return found == object.end() ? std::string() : text_of(*found);
}

double rate_in(const Json& object, const char* key) {
  if (!object.is_object()) return 0;
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return 0;
  const auto rate = found->get<double>();
  return std::isfinite(rate) && rate > 0 ? rate : 0;
}

std::uint64_t count_in(const Json& object, const char* key) {
  if (!object.is_object()) return 0;
  const auto found = object.find(key);
  return found != object.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

std::vector<std::string> texts_of(const Json& json) {
  std::vector<std::string> texts;
  if (!json.is_array()) return texts;
  for (const Json& each : json) {
    if (each.is_string()) texts.push_back(text_of(each));
  }
  return texts;
}

std::string hex_of(std::span<const std::byte> bytes) {
  std::string text(bytes.size() * 2 + 1, '\0');
  ::sodium_bin2hex(text.data(), text.size(), reinterpret_cast<const unsigned char*>(bytes.data()),
                   bytes.size());
  text.pop_back();
  return text;
}

/// Empty for anything that is no hexadecimal text.
Bytes bytes_of_hex(std::string_view text) {
  Bytes bytes(text.size() / 2);
  std::size_t length = 0;
  const char* end = nullptr;
  const int bad =
      ::sodium_hex2bin(reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(), text.data(),
                       text.size(), nullptr, &length, &end);
  if (bad != 0 || length != bytes.size() || end != text.data() + text.size()) return {};
  return bytes;
}

Json json_of(const End& end) {
  return {{"host", end.host},         {"nic", end.nic},           {"memory", end.memory},
          {"device", end.device},     {"distance", end.distance},
          {"link", end.link_bytes_per_second}};
}

End end_of(const Json& json) {
  End end;
  end.host = text_in(json, "host");
  end.nic = text_in(json, "nic");
  end.memory = text_in(json, "memory");
  end.device = text_in(json, "device");
  end.distance = text_in(json, "distance");
  end.link_bytes_per_second = rate_in(json, "link");
  return end;
}

CellState state_of(std::uint64_t number) {
  return number <= static_cast<std::uint64_t>(CellState::corrupt) ? static_cast<CellState>(number)
                                                                  : CellState::broken;
}

}  // namespace

Bytes encode(const Inventory& inventory) {
  Json ends = Json::array();
  for (const End& end : inventory.ends) ends.push_back(json_of(end));
  const MatrixParameters& parameters = inventory.parameters;
  return bytes_of(Json::array({std::move(ends), inventory.problem,
                               {{"message_bytes", parameters.message_bytes},
                                {"time_ms", parameters.time_ms},
                                {"verify", parameters.verify ? 1U : 0U}}}));
}

Bytes encode(const std::vector<OpenedEnd>& ends) {
  Json json = Json::array();
  for (const OpenedEnd& end : ends) {
    json.push_back({{"addresses", end.remote.addresses},
                    {"key", hex_of(end.remote.key)},
                    {"path", end.path},
                    {"problem", end.problem}});
  }
  return bytes_of(json);
}

Bytes encode(const std::vector<CellReport>& reports) {
  Json json = Json::array();
  for (const CellReport& report : reports) {
    json.push_back({{"cell", report.cell},
                    {"state", static_cast<std::uint64_t>(report.state)},
                    {"rate", report.bytes_per_second},
                    {"verified", report.verified_bytes},
                    {"path", report.path},
                    {"problem", report.problem}});
  }
  return bytes_of(json);
}

Bytes encode(const Facts& facts) { return bytes_of(Json(facts)); }

std::optional<Inventory> decode_inventory(std::span<const std::byte> bytes) {
  const auto json = array_in(bytes);
  if (!json || json->size() != 3 || !(*json)[0].is_array()) return std::nullopt;
  Inventory inventory;
  for (const Json& end : (*json)[0]) inventory.ends.push_back(end_of(end));
  inventory.problem = text_of((*json)[1]);
  const Json& parameters = (*json)[2];
  inventory.parameters = {.message_bytes = count_in(parameters, "message_bytes"),
                          .time_ms = count_in(parameters, "time_ms"),
                          .verify = count_in(parameters, "verify") != 0};
  return inventory;
}

std::optional<std::vector<OpenedEnd>> decode_opened(std::span<const std::byte> bytes) {
  const auto json = array_in(bytes);
  if (!json) return std::nullopt;
  std::vector<OpenedEnd> ends;
  for (const Json& each : *json) {
    OpenedEnd& end = ends.emplace_back();
    if (each.is_object() && each.contains("addresses"))
      end.remote.addresses = texts_of(each["addresses"]);
    end.remote.key = bytes_of_hex(text_in(each, "key"));
    end.path = text_in(each, "path");
    end.problem = text_in(each, "problem");
  }
  return ends;
}

std::optional<std::vector<CellReport>> decode_reports(std::span<const std::byte> bytes) {
  const auto json = array_in(bytes);
  if (!json) return std::nullopt;
  std::vector<CellReport> reports;
  for (const Json& each : *json) {
    reports.push_back({.cell = count_in(each, "cell"),
                       .state = state_of(count_in(each, "state")),
                       .bytes_per_second = rate_in(each, "rate"),
                       .verified_bytes = count_in(each, "verified"),
                       .path = text_in(each, "path"),
                       .problem = text_in(each, "problem")});
  }
  return reports;
}

std::optional<Facts> decode_facts(std::span<const std::byte> bytes) {
  const auto json = array_in(bytes);
  if (!json) return std::nullopt;
  Facts facts;
  for (const Json& each : *json) facts.push_back(texts_of(each));
  return facts;
}

}  // namespace hbmwire::tools::perf::all
