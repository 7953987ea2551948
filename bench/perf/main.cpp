// SPDX-License-Identifier: MIT
#include "bench/common/program.hpp"
#include "bench/perf/rows.hpp"

int main(int argc, char** argv) {
  return hbmwire::bench::run_program(
      argc, argv,
      "`hbmwire perf` beside the programs whose job it does. Ratios are medians of pairs of runs,\n"
      "taken in turn while the machine was steady.",
      hbmwire::bench::shared_memory_rows);
}
