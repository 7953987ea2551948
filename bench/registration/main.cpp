// SPDX-License-Identifier: MIT
#include <stdexcept>

#include "bench/common/program.hpp"
#include "bench/registration/rows.hpp"

namespace hbmwire::bench {
namespace {

std::vector<Row> all_rows() {
  const auto context = Context::create();
  if (!context) throw std::runtime_error(describe(context.error()));
  return joined({hit_rows(*context), thread_rows(*context), miss_rows(*context)});
}

}  // namespace
}  // namespace hbmwire::bench

int main(int argc, char** argv) {
  return hbmwire::bench::run_program(
      argc, argv,
      "The registration cache against UCX's own, and against registering each time. Ratios are\n"
      "medians of pairs of short slices, taken in turn while the machine was steady.",
      hbmwire::bench::all_rows);
}
