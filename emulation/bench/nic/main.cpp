// SPDX-License-Identifier: MIT
#include "bench/common/program.hpp"
#include "emulation/bench/nic/rows.hpp"

namespace hbmwire::bench {
namespace {

std::vector<Row> all_rows() {
  std::vector<Row> rows =
      joined({copy_rows(), latency_rows(), wake_rows(), registration_rows(), aggregate_rows()});
  for (Row& row : rows) row.renewed = true;
  // The figures of these rows do not depend on memory layout.
  return joined({rows, many_rows()});
}

}  // namespace
}  // namespace hbmwire::bench

int main(int argc, char** argv) {
  return hbmwire::bench::run_program(
      argc, argv,
      "The emulated NIC against what the machine can do. Ratios are medians of pairs of\n"
      "short slices, taken in turn while the machine was steady.",
      hbmwire::bench::all_rows);
}
