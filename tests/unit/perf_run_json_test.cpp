// SPDX-License-Identifier: MIT
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "perf_runs.hpp"
#include "tools/common/text_file.hpp"
#include "tools/perf/comparison.hpp"
#include "tools/perf/run_json.hpp"

namespace hbmwire::tools::perf {
namespace {

using testing::HasSubstr;

TEST(PerfJson, HasPerftestsKeysAndUnits) {
  RunResult run = write_bw_run();
  run.rows = {bandwidth_row(65536, 12.5e9)};
  const Json mebi = to_json(run, {});
  EXPECT_EQ(mebi["test_info"]["test"], "RDMA_Write_BW_Test");
  EXPECT_EQ(mebi["test_info"]["Number_of_qps"], 1);
  EXPECT_EQ(mebi["test_info"]["TX_depth"], 128);
  EXPECT_EQ(mebi["test_info"]["Mtu"], 4096);
  EXPECT_EQ(mebi["results"]["MsgSize"], 65536);
  EXPECT_EQ(mebi["results"]["n_iterations"], 5000);
  EXPECT_DOUBLE_EQ(mebi["results"]["BW_average"].get<double>(), 12.5e9 / (1 << 20));
  const Json giga = to_json(run, {.gigabits = true});
  EXPECT_DOUBLE_EQ(giga["results"]["BW_average"].get<double>(), 100);
  EXPECT_EQ(giga["BW_unit"], "Gb/sec");
  const Json latency = to_json(write_lat_run(), {});
  EXPECT_DOUBLE_EQ(latency["results"]["t_typical"].get<double>(), 9.123);
  EXPECT_TRUE(latency["results"].contains("percentile_99.9"));
}

TEST(PerfJson, HoldsNoFigureOfBytesThatDidNotArrive) {
  RunResult run = write_bw_run();
  run.rows[0].verification.wrong_bytes = 3;
  const Json json = to_json(run, {});
  EXPECT_TRUE(json["results"].is_null());
  EXPECT_TRUE(json["rows"][0]["bandwidth"].is_null());
  EXPECT_EQ(json["rows"][0]["verification"]["passed"], false);
}

TEST(PerfJson, HasTheBytesThatTheEndpointApiMoved) {
  RunResult run = write_bw_run();
  EXPECT_TRUE(to_json(run, {})["rows"][0]["moved_bytes"].is_null());
  run.rows[0].moved_bytes = 12345;
  EXPECT_EQ(to_json(run, {})["rows"][0]["moved_bytes"], 12345);
}

TEST(PerfJson, SaysWhyThereIsNoVerdict) {
  RunResult run = write_bw_run();
  run.why_no_verdict = "the limit is not known";
  const Json none = to_json(run, {});
  EXPECT_TRUE(none["verdict"].is_null());
  EXPECT_EQ(none["why_no_verdict"], "the limit is not known");
  run.verdict = Verdict{.limit = {}, .size_bytes = 1, .reached_bytes_per_second = 1, .share = 1};
  const Json given = to_json(run, {});
  EXPECT_FALSE(given["verdict"].is_null());
  EXPECT_TRUE(given["why_no_verdict"].is_null());
}

TEST(PerfJson, ComesBackAsItWas) {
  const RunResult run = sweep_run();
  const auto back = run_from_json(Json::parse(to_json(run, {}).dump()));
  ASSERT_TRUE(back) << back.error();
  EXPECT_EQ(back->test, run.test);
  EXPECT_EQ(back->measure, run.measure);
  EXPECT_EQ(back->local.memory, run.local.memory);
  ASSERT_EQ(back->rows.size(), run.rows.size());
  for (std::size_t i = 0; i < run.rows.size(); ++i) {
    EXPECT_EQ(back->rows[i].size_bytes, run.rows[i].size_bytes);
    EXPECT_DOUBLE_EQ(back->rows[i].bandwidth->average_bytes_per_second,
                     run.rows[i].bandwidth->average_bytes_per_second);
  }
  ASSERT_EQ(back->parameters.size(), 4U);
  EXPECT_EQ(back->parameters[1].value, 128);
}

TEST(PerfJson, CanBeComparedWithItself) {
  const RunResult run = sweep_run();
  const auto back = run_from_json(Json::parse(to_json(run, {}).dump()));
  ASSERT_TRUE(back) << back.error();
  const auto comparison = compare_runs(*back, run);
  ASSERT_TRUE(comparison);
  EXPECT_EQ(comparison->changes.size(), run.rows.size());
  EXPECT_TRUE(comparison->differences.empty());
}

std::string refusal(const Json& json) {
  const auto run = run_from_json(json);
  return run ? "" : run.error();
}

TEST(PerfJson, NamesTheFault) {
  const Json good = to_json(write_bw_run(), {});
  ASSERT_EQ(refusal(good), "");
  EXPECT_THAT(refusal(Json::array()), HasSubstr("it is no object"));
  EXPECT_THAT(refusal(Json::object()), HasSubstr("format is missing"));

  Json json = good;
  json["version"] = 2;
  EXPECT_THAT(refusal(json), HasSubstr("its version is another one"));
  json = good;
  json["measure"] = "weight";
  EXPECT_THAT(refusal(json), HasSubstr("measure is neither"));
  json = good;
  json["rows"] = 7;
  EXPECT_THAT(refusal(json), HasSubstr("rows is no list"));
  json = good;
  json["rows"][0]["size_bytes"] = -1;
  EXPECT_THAT(refusal(json), HasSubstr("rows[0].size_bytes is no count"));
  json = good;
  json["rows"][0]["bandwidth"]["average_bytes_per_second"] = 1e300;
  EXPECT_THAT(refusal(json),
              HasSubstr("rows[0].bandwidth.average_bytes_per_second is out of range"));
  json = good;
  json["local"].erase("memory");
  EXPECT_THAT(refusal(json), HasSubstr("local.memory is missing"));
}

// Replaces each value of a saved run by one of another kind, or removes it. Reading gives a message
// or a run, never an exception, and a run can be compared.
void replace_each(Json& place, const Json& whole, unsigned& refused) {
  const Json kept = place;
  for (const Json& other : {Json(), Json(-1), Json(1e308), Json("x"), Json(true), Json::array({1}),
                            Json::object({{"a", 1}})}) {
    place = other;
    const auto run = run_from_json(whole);
    if (!run) {
      EXPECT_FALSE(run.error().empty());
      ++refused;
    } else {
      const auto comparison = compare_runs(*run, write_bw_run());
      if (comparison) {
        EXPECT_FALSE(comparison_lines(*comparison, {}).empty());
      }
    }
  }
  place = kept;
  if (!place.is_structured()) return;
  for (auto& below : place) replace_each(below, whole, refused);
}

TEST(PerfJson, SurvivesAnyValueInAnyPlace) {
  Json json = to_json(write_bw_run(), {});
  unsigned refused = 0;
  for (auto& place : json) replace_each(place, json, refused);
  EXPECT_GT(refused, 100U);
}

Outcome<void> write_text_file(const std::string& path, const std::string& text) {
  HBMWIRE_TRY_ASSIGN(auto file, TextFile::open(path));
  return file.write(text);
}

class PerfRunFile : public testing::Test {
 protected:
  PerfRunFile() {
    std::string name = (std::filesystem::temp_directory_path() / "perf-run-XXXXXX").string();
    directory_ = mkdtemp(name.data());
  }

  ~PerfRunFile() override { std::filesystem::remove_all(directory_); }

  [[nodiscard]] std::string path(const char* name) const { return (directory_ / name).string(); }

  std::string refusal(const std::string& text) {
    EXPECT_TRUE(write_text_file(path("bad"), text));
    const auto run = read_run(path("bad"));
    return run ? "" : run.error().text;
  }

  std::filesystem::path directory_;
};

TEST_F(PerfRunFile, ComesBack) {
  ASSERT_TRUE(write_text_file(path("run"), to_json(sweep_run(), {}).dump()));
  const auto run = read_run(path("run"));
  ASSERT_TRUE(run) << run.error().text;
  EXPECT_EQ(run->rows.size(), 23U);
}

TEST_F(PerfRunFile, IsRefusedByOneSentence) {
  const std::string good = to_json(write_bw_run(), {}).dump();
  EXPECT_THAT(refusal(""), HasSubstr("it is no JSON; save one by --out_json_file FILE"));
  EXPECT_THAT(refusal(good.substr(0, good.size() / 2)), HasSubstr("it is no JSON"));
  EXPECT_THAT(refusal(std::string(1000, '\xff')), HasSubstr("it is no JSON"));
  EXPECT_THAT(refusal(std::string(100'000, '[')), HasSubstr("it is no JSON"));
  EXPECT_THAT(refusal("{}"), HasSubstr("format is missing"));
  EXPECT_EQ(refusal("{}").find('\n'), std::string::npos);
  EXPECT_THAT(read_run(path("none")).error().text, HasSubstr("check the path"));
  EXPECT_THAT(read_run(directory_.string()).error().text, HasSubstr("not a regular file"));
  ASSERT_EQ(mkfifo(path("fifo").c_str(), 0600), 0);
  EXPECT_THAT(read_run(path("fifo")).error().text, HasSubstr("not a regular file"));
}

TEST_F(PerfRunFile, IsNotReadWhenItIsTooLarge) {
  ASSERT_TRUE(write_text_file(path("large"), "{"));
  std::filesystem::resize_file(path("large"), std::uintmax_t{1} << 40);
  EXPECT_THAT(read_run(path("large")).error().text, HasSubstr("larger than the 16 MiB"));
}

TEST_F(PerfRunFile, IsNotWrittenWhereThereIsNoPlace) {
  const auto written = write_text_file(path("none/run"), "x");
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error().text, HasSubstr("none/run"));
}

}  // namespace
}  // namespace hbmwire::tools::perf
