// SPDX-License-Identifier: MIT
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "perf_matrices.hpp"
#include "tools/perf/all/presentation.hpp"

namespace hbmwire::tools::perf::all {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::SizeIs;

/// Reads RFC 4180 as strictly as it is written: every record ends with CRLF, and a quote stands
/// only around a field or twice within one.
std::vector<std::vector<std::string>> records_of(const std::string& csv) {
  std::vector<std::vector<std::string>> records;
  std::size_t at = 0;
  while (at < csv.size()) {
    std::vector<std::string> record;
    for (bool more = true; more;) {
      std::string field;
      if (csv[at] == '"') {
        for (++at; at < csv.size() && (csv[at] != '"' || csv.substr(at, 2) == "\"\""); ++at) {
          field += csv[at];
          if (csv[at] == '"') ++at;
        }
        ++at;
      } else {
        for (; at < csv.size() && std::string(",\"\r\n").find(csv[at]) == std::string::npos; ++at)
          field += csv[at];
      }
      record.push_back(field);
      more = at < csv.size() && csv[at] == ',';
      if (more) ++at;
    }
    if (csv.substr(at, 2) != "\r\n") {
      ADD_FAILURE() << "no end of a record at " << csv.substr(at, 40);
      return records;
    }
    at += 2;
    records.push_back(std::move(record));
  }
  return records;
}

TEST(PerfMatrixCsv, HasARowForEachCellOfEachPhase) {
  for (std::uint32_t ranks = 1; ranks <= 5; ++ranks) {
    const MatrixRun run = equal_run(ranks, 2);
    const auto records = records_of(to_csv(run));
    EXPECT_EQ(records.size(),
              1 + run.pairs.size() + run.all_at_once.size() + run.many_to_one.size());
    EXPECT_THAT(records, Each(SizeIs(17)));
  }
}

TEST(PerfMatrixCsv, HasTheFiguresOfACell) {
  MatrixRun run = equal_run(2);
  fail_cell(run.pairs[1], CellState::unreachable, "no route to n0");
  const auto records = records_of(to_csv(run));
  EXPECT_THAT(records.at(1),
              ElementsAre("pairs", "0", "n0", "mlx5_0:1", "gaudi", "gaudi2 0000:33:00.0", "1", "n1",
                          "mlx5_0:1", "gaudi", "gaudi2 0000:33:00.0", "measured", "10000000000",
                          "0.8", "1048576", "RDMA write, zero-copy", ""));
  EXPECT_EQ(records.at(2).at(11), "unreachable");
  EXPECT_EQ(records.at(2).at(12), "");  // no figure, which is not 0
  EXPECT_EQ(records.at(2).at(13), "");
  EXPECT_EQ(records.at(2).at(16), "no route to n0");
  EXPECT_EQ(records.at(3).at(0), "all_at_once");
  EXPECT_EQ(records.at(5).at(0), "many_to_one");
}

TEST(PerfMatrixCsv, QuotesCommasQuotesAndLineEnds) {
  MatrixRun run = equal_run(2);
  run.ends[0].host = "a,b";
  run.ends[0].nic = "\"";
  run.ends[0].memory = "two\r\nlines";
  run.ends[0].device = "";
  fail_cell(run.pairs[0], CellState::broken, "he said \"no\", and left");
  const std::string csv = to_csv(run);
  EXPECT_THAT(csv, testing::HasSubstr("\"he said \"\"no\"\", and left\""));
  const auto record = records_of(csv).at(1);
  EXPECT_EQ(record.at(2), "a,b");
  EXPECT_EQ(record.at(3), "\"");
  EXPECT_EQ(record.at(4), "two\r\nlines");
  EXPECT_EQ(record.at(5), "");
  EXPECT_EQ(record.at(16), "he said \"no\", and left");
}

TEST(PerfMatrixCsv, IsReadableWithAllKindsOfTexts) {
  std::mt19937_64 random(6);
  for (int round = 0; round < 200; ++round) {
    const MatrixRun run = random_run(random);
    const std::string csv = to_csv(run);
    const auto records = records_of(csv);
    EXPECT_EQ(records.size(),
              1 + run.pairs.size() + run.all_at_once.size() + run.many_to_one.size());
    EXPECT_THAT(records, Each(SizeIs(17)));
    EXPECT_EQ(csv.find_first_of(std::string("\0\x1b\t", 3)), std::string::npos);
  }
}

}  // namespace
}  // namespace hbmwire::tools::perf::all
