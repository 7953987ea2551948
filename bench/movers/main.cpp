// SPDX-License-Identifier: MIT
#include "bench/common/by_nic.hpp"
#include "bench/common/program.hpp"
#include "bench/movers/rows.hpp"

int main(int argc, char** argv) {
  using namespace hbmwire::bench;
  go_by_nic();  // a Holding that is `shared` allows shared memory for its own row
  return run_program(
      argc, argv,
      "What carries bytes where the NIC does not, against what else would. Ratios are medians of\n"
      "pairs of short slices, taken in turn while the machine was steady.",
      [] {
        return joined({device_rows(), copy_rows(), tcp_rows()});
      });
}
