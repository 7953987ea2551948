// SPDX-License-Identifier: MIT
#include "bench/common/program.hpp"
#include "bench/perf/rows.hpp"

namespace hbmwire::bench {
namespace {

std::vector<Row> all_rows() { return joined({perftest_rows(), shared_memory_rows()}); }

}  // namespace
}  // namespace hbmwire::bench

int main(int argc, char** argv) {
  return hbmwire::bench::run_program(
      argc, argv,
      "`hbmwire perf` beside the programs whose job it does. Ratios are medians of pairs of runs,\n"
      "taken in turn while the machine was steady.",
      hbmwire::bench::all_rows);
}
