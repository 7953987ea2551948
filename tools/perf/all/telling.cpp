// SPDX-License-Identifier: MIT
#include "tools/perf/all/telling.hpp"

#include <sodium.h>

#include <string_view>

#include "tools/common/output.hpp"
#include "tools/perf/json_fields.hpp"

namespace hbmwire::tools::perf::all {
namespace {

Bytes bytes_of(const Json& json) {
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  const auto* const first = reinterpret_cast<const std::byte*>(text.data());
  return {first, first + text.size()};
}

/// Calls `read` with the fields of an object. Nothing if a field is missing or invalid.
template <class Read>
auto read_object(std::span<const std::byte> bytes, Read read)
    -> std::optional<decltype(read(std::declval<JsonFields&>()))> {
  const auto* const first = reinterpret_cast<const char*>(bytes.data());
  const Json json = Json::parse(first, first + bytes.size(), nullptr, false);
  std::string problem;
  JsonFields fields(json, {}, problem);
  auto value = read(fields);
  if (!problem.empty()) return std::nullopt;
  return value;
}

/// Calls `read` with the fields of each object in the list "items". Nothing if a field is missing
/// or invalid.
template <class T, class Read>
std::optional<std::vector<T>> read_items(std::span<const std::byte> bytes, Read read) {
  return read_object(bytes, [&](JsonFields& fields) {
    std::vector<T> items;
    const std::size_t count = fields.list("items").size();
    for (std::size_t i = 0; i < count; ++i) {
      JsonFields item = fields.item("items", i);
      items.push_back(read(item));
    }
    return items;
  });
}

template <class T, class Write>
Bytes write_items(const std::vector<T>& items, Write write) {
  Json list = Json::array();
  for (const T& item : items) list.push_back(write(item));
  return bytes_of({{"items", std::move(list)}});
}

std::string hex_of(std::span<const std::byte> bytes) {
  std::string text(bytes.size() * 2 + 1, '\0');  // sodium_bin2hex() ends it with a NUL
  ::sodium_bin2hex(text.data(), text.size(), reinterpret_cast<const unsigned char*>(bytes.data()),
                   bytes.size());
  text.pop_back();
  return text;
}

/// Empty for anything that is no hexadecimal text.
Bytes bytes_of_hex(std::string_view text) {
  Bytes bytes(text.size() / 2);
  if (bytes.empty()) return bytes;  // it has no address, which sodium_hex2bin() needs
  std::size_t length = 0;
  const char* end = nullptr;
  const int bad = ::sodium_hex2bin(reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(),
                                   text.data(), text.size(), nullptr, &length, &end);
  if (bad != 0 || length != bytes.size() || end != text.data() + text.size()) return {};
  return bytes;
}

Json json_of(const End& end) {
  return {{"host", end.host},     {"nic", end.nic},           {"memory", end.memory},
          {"device", end.device}, {"distance", end.distance}, {"link", end.link_bytes_per_second}};
}

End end_of(JsonFields& fields) {
  End end;
  end.host = fields.text("host");
  end.nic = fields.text("nic");
  end.memory = fields.text("memory");
  end.device = fields.text("device");
  end.distance = fields.text("distance");
  end.link_bytes_per_second = fields.amount("link");
  return end;
}

constexpr std::uint64_t kReportStates = static_cast<std::uint64_t>(CellState::corrupt) + 1;

}  // namespace

Bytes encode(const Inventory& inventory) {
  Json ends = Json::array();
  for (const End& end : inventory.ends) ends.push_back(json_of(end));
  return bytes_of({{"message_bytes", inventory.parameters.message_bytes},
                   {"time_ms", inventory.parameters.time_ms},
                   {"verify", inventory.parameters.verify},
                   {"ends", std::move(ends)},
                   {"problem", inventory.problem}});
}

std::optional<Inventory> decode_inventory(std::span<const std::byte> bytes) {
  return read_object(bytes, [](JsonFields& fields) {
    Inventory inventory;
    inventory.parameters = {.message_bytes = fields.count("message_bytes"),
                            .time_ms = fields.count("time_ms"),
                            .verify = fields.truth("verify")};
    const std::size_t count = fields.list("ends").size();
    for (std::size_t i = 0; i < count; ++i) {
      JsonFields end = fields.item("ends", i);
      inventory.ends.push_back(end_of(end));
    }
    inventory.problem = fields.text("problem");
    return inventory;
  });
}

Bytes encode(const std::vector<OpenedEnd>& ends) {
  return write_items(ends, [](const OpenedEnd& end) {
    return Json{{"addresses", end.remote.addresses},
                {"key", hex_of(end.remote.key)},
                {"path", end.path},
                {"problem", end.problem}};
  });
}

std::optional<std::vector<OpenedEnd>> decode_opened(std::span<const std::byte> bytes) {
  return read_items<OpenedEnd>(bytes, [](JsonFields& fields) {
    OpenedEnd end;
    const std::string key = fields.text("key");
    end.remote = {.addresses = fields.texts("addresses"), .key = bytes_of_hex(key)};
    if (end.remote.key.empty() != key.empty()) fields.refuse("key", "no hexadecimal text");
    end.path = fields.text("path");
    end.problem = fields.text("problem");
    return end;
  });
}

Bytes encode(const std::vector<CellReport>& reports) {
  return write_items(reports, [](const CellReport& report) {
    return Json{{"cell", report.cell},
                {"state", static_cast<std::uint64_t>(report.state)},
                {"rate", report.bytes_per_second},
                {"verified", report.verified_bytes},
                {"path", report.path},
                {"problem", report.problem}};
  });
}

std::optional<std::vector<CellReport>> decode_reports(std::span<const std::byte> bytes) {
  return read_items<CellReport>(bytes, [](JsonFields& fields) {
    return CellReport{.cell = fields.count("cell"),
                      .state = static_cast<CellState>(fields.index("state", kReportStates)),
                      .bytes_per_second = fields.amount("rate"),
                      .verified_bytes = fields.count("verified"),
                      .path = fields.text("path"),
                      .problem = fields.text("problem")};
  });
}

Bytes encode(const Facts& facts) {
  return write_items(facts, [](const auto& texts) { return Json{{"texts", texts}}; });
}

std::optional<Facts> decode_facts(std::span<const std::byte> bytes) {
  return read_items<std::vector<std::string>>(
      bytes, [](JsonFields& fields) { return fields.texts("texts"); });
}

}  // namespace hbmwire::tools::perf::all
