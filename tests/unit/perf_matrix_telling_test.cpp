// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string_view>

#include "perf_matrices.hpp"
#include "tools/perf/all/telling.hpp"

namespace hbmwire::tools::perf::all {
namespace {

std::span<const std::byte> bytes_in(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

Inventory some_inventory() {
  return {.parameters = {.message_bytes = 1 << 20, .time_ms = 250, .verify = false},
          .ends = {end_of_rank(0, 0), end_of_rank(0, 1)},
          .problem = "no \"port\" is active, \xc3\xa9"};
}

std::vector<OpenedEnd> some_opened() {
  return {{.remote = {.addresses = {"10.0.0.2:4711", "[fe80::1]:1"},
                      .key = {std::byte{0}, std::byte{255}, std::byte{16}}},
           .path = "zero-copy dma-buf"},
          {.problem = "open: no such device"}};
}

std::vector<CellReport> some_reports() {
  return {{.cell = 7, .state = CellState::measured, .bytes_per_second = 1.0 / 3, .path = "put"},
          {.cell = 8, .state = CellState::corrupt, .verified_bytes = 9, .problem = "1 byte"}};
}

Facts some_facts() { return {{}, {"the link is 10 Gb/s", "it is far"}, {""}}; }

/// A message, and whether bytes are one of its kind.
struct Kind {
  Bytes message;
  std::function<bool(std::span<const std::byte>)> accepts;
};

std::vector<Kind> all_kinds() {
  return {
      {encode(some_inventory()), [](auto bytes) { return decode_inventory(bytes).has_value(); }},
      {encode(some_opened()), [](auto bytes) { return decode_opened(bytes).has_value(); }},
      {encode(some_reports()), [](auto bytes) { return decode_reports(bytes).has_value(); }},
      {encode(some_facts()), [](auto bytes) { return decode_facts(bytes).has_value(); }}};
}

TEST(PerfMatrixTelling, BringsAnInventoryBack) {
  const Inventory sent = some_inventory();
  const auto got = decode_inventory(encode(sent));
  ASSERT_TRUE(got);
  EXPECT_EQ(got->parameters.message_bytes, sent.parameters.message_bytes);
  EXPECT_EQ(got->parameters.time_ms, sent.parameters.time_ms);
  EXPECT_EQ(got->parameters.verify, sent.parameters.verify);
  EXPECT_EQ(got->problem, sent.problem);
  ASSERT_EQ(got->ends.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    End expected = sent.ends[i];
    expected.path.clear();  // not known before an end is opened
    EXPECT_EQ(fields_of(got->ends[i]), fields_of(expected));
  }
}

TEST(PerfMatrixTelling, BringsOpenedEndsBack) {
  const auto sent = some_opened();
  const auto got = decode_opened(encode(sent));
  ASSERT_TRUE(got);
  ASSERT_EQ(got->size(), sent.size());
  for (std::size_t i = 0; i < sent.size(); ++i) {
    EXPECT_EQ((*got)[i].remote.addresses, sent[i].remote.addresses);
    EXPECT_EQ((*got)[i].remote.key, sent[i].remote.key);
    EXPECT_EQ((*got)[i].path, sent[i].path);
    EXPECT_EQ((*got)[i].problem, sent[i].problem);
  }
}

TEST(PerfMatrixTelling, BringsReportsBack) {
  const auto sent = some_reports();
  const auto got = decode_reports(encode(sent));
  ASSERT_TRUE(got);
  ASSERT_EQ(got->size(), sent.size());
  for (std::size_t i = 0; i < sent.size(); ++i) {
    EXPECT_EQ((*got)[i].cell, sent[i].cell);
    EXPECT_EQ((*got)[i].state, sent[i].state);
    EXPECT_EQ((*got)[i].bytes_per_second, sent[i].bytes_per_second);
    EXPECT_EQ((*got)[i].verified_bytes, sent[i].verified_bytes);
    EXPECT_EQ((*got)[i].path, sent[i].path);
    EXPECT_EQ((*got)[i].problem, sent[i].problem);
  }
}

TEST(PerfMatrixTelling, BringsFactsAndEmptyListsBack) {
  EXPECT_EQ(decode_facts(encode(some_facts())), some_facts());
  EXPECT_EQ(decode_facts(encode(Facts())), Facts());
  EXPECT_TRUE(decode_opened(encode(std::vector<OpenedEnd>())).value().empty());
  EXPECT_TRUE(decode_reports(encode(std::vector<CellReport>())).value().empty());
  EXPECT_TRUE(decode_inventory(encode(Inventory())).value().ends.empty());
}

TEST(PerfMatrixTelling, SendsTextsThatAreNoUtf8) {
  const auto got = decode_inventory(encode(Inventory{.problem = "bad \xff\xfe"}));
  ASSERT_TRUE(got);
  EXPECT_TRUE(got->problem.starts_with("bad "));
}

TEST(PerfMatrixTelling, TakesNoMessageThatWasCutOff) {
  for (const Kind& kind : all_kinds()) {
    ASSERT_TRUE(kind.accepts(kind.message));
    for (std::size_t length = 0; length < kind.message.size(); ++length)
      EXPECT_FALSE(kind.accepts(std::span(kind.message).first(length))) << length;
  }
}

TEST(PerfMatrixTelling, TakesNoMessageOfAnotherKind) {
  const auto kinds = all_kinds();
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    for (std::size_t j = 0; j < kinds.size(); ++j)
      EXPECT_EQ(kinds[i].accepts(kinds[j].message), i == j) << i << ", " << j;
  }
}

TEST(PerfMatrixTelling, TakesNoRandomBytes) {
  std::mt19937_64 random(1);
  for (const Kind& kind : all_kinds()) {
    for (int round = 0; round < 1000; ++round) {
      Bytes noise(random() % 64);
      for (std::byte& byte : noise) byte = static_cast<std::byte>(random());
      EXPECT_FALSE(kind.accepts(noise));
    }
  }
}

TEST(PerfMatrixTelling, SurvivesChangedBytes) {
  std::mt19937_64 random(2);
  for (const Kind& kind : all_kinds()) {
    for (int round = 0; round < 3000; ++round) {
      Bytes changed = kind.message;
      for (auto left = 1 + random() % 3; left > 0; --left)
        changed[random() % changed.size()] = static_cast<std::byte>(random());
      EXPECT_NO_THROW(static_cast<void>(kind.accepts(changed)));
    }
  }
}

TEST(PerfMatrixTelling, TakesNoValueOfAnotherType) {
  for (const Kind& kind : all_kinds()) {
    for (const char* bad :
         {"", "null", "1", "[]", "{}", "\"items\"", R"({"items":null})", R"({"items":{}})",
          R"({"items":[1]})", R"({"items":[null]})", R"({"items":[[]]})", R"({"items":[{}]})",
          R"({"items":[{"texts":[1]}]})", R"({"items":[{"texts":"a"}]})"})
      EXPECT_FALSE(kind.accepts(bytes_in(bad))) << bad;
  }
}

TEST(PerfMatrixTelling, TakesNoFigureThatCannotBe) {
  const auto report = [](const std::string& cell, const std::string& state,
                         const std::string& rate) {
    const std::string text = R"({"items":[{"cell":)" + cell + R"(,"state":)" + state +
                             R"(,"rate":)" + rate + R"(,"verified":0,"path":"","problem":""}]})";
    return decode_reports(bytes_in(text)).has_value();
  };
  EXPECT_TRUE(report("0", "1", "1"));
  // The decoder does not know how many cells there are.
  EXPECT_TRUE(report("18446744073709551615", "4", "1e30"));
  for (const char* bad : {"-1", "1.5", "18446744073709551616", "1e3", "\"0\"", "null", "true"})
    EXPECT_FALSE(report(bad, "1", "1")) << bad;
  for (const char* bad : {"-1", "5", "256", "18446744073709551615", "\"measured\""})
    EXPECT_FALSE(report("0", bad, "1")) << bad;
  for (const char* bad : {"-1", "-1e-9", "1e31", "1e400", "null", "\"1\"", "NaN"})
    EXPECT_FALSE(report("0", "1", bad)) << bad;
}

TEST(PerfMatrixTelling, TakesNoKeyThatIsNoHexadecimalText) {
  const auto opened = [](const std::string& key) {
    return decode_opened(bytes_in(R"({"items":[{"addresses":[],"key":")" + key +
                                  R"(","path":"","problem":""}]})"))
        .has_value();
  };
  EXPECT_TRUE(opened(""));
  EXPECT_TRUE(opened("00ff"));
  for (const char* bad : {"0", "0g", "zz", "00ff ", "0x00", "00f"})
    EXPECT_FALSE(opened(bad)) << bad;
}

TEST(PerfMatrixTelling, SurvivesDeepNesting) {
  const std::string deep = std::string(50'000, '[');
  for (const Kind& kind : all_kinds()) {
    EXPECT_FALSE(kind.accepts(bytes_in(deep)));
    EXPECT_FALSE(
        kind.accepts(bytes_in("{\"items\":" + deep + std::string(deep.size(), ']') + "}")));
  }
}

}  // namespace
}  // namespace hbmwire::tools::perf::all
