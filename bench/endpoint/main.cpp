// SPDX-License-Identifier: MIT
#include "bench/common/by_nic.hpp"
#include "bench/common/program.hpp"
#include "bench/endpoint/rows.hpp"

namespace hbmwire::bench {
namespace {

std::vector<Row> all_rows() {
  return joined({raw_rows(), list_rows(), ucx_rows(), fabric_rows(), tag_rows(), threshold_rows()});
}

}  // namespace
}  // namespace hbmwire::bench

int main(int argc, char** argv) {
  hbmwire::bench::go_by_nic();
  return hbmwire::bench::run_program(
      argc, argv,
      "The endpoint API against raw verbs, UCX and libfabric, all on one NIC. Ratios are medians\n"
      "of pairs of short slices, taken in turn while the machine was steady.",
      hbmwire::bench::all_rows);
}
