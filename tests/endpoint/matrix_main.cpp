// SPDX-License-Identifier: MIT
// usage: endpoint_matrix serve                          the other side, which prints its port
//        endpoint_matrix lead pairs|all PLACE [PORT]    the rows of that place; no port for threads
#include <cstdio>
#include <cstdlib>
#include <future>
#include <thread>

#include "matrix_side.hpp"

namespace {

using namespace hbmwire;

int serve() {
  const Context context = matrix::must(Context::create());
  matrix::serve(context, [](std::uint16_t port) {
    std::printf("%u\n", port);
    std::fflush(stdout);
  });
  return 0;
}

int lead(std::string_view which, std::string_view where, std::uint16_t port) {
  std::vector<matrix::Row> rows = which == "all" ? matrix::all_rows() : matrix::pairwise_rows();
  std::erase_if(rows, [&](const matrix::Row& row) {
    return matrix::to_string(matrix::kPlaces[row[matrix::place]]) != where;
  });
  if (rows.empty()) {
    std::fprintf(stderr, "no rows of that place\n");
    return 2;
  }
  const Context context = matrix::must(Context::create());
  std::thread serving;
  if (port == 0) {
    std::promise<std::uint16_t> ready;
    auto told = ready.get_future();
    serving = std::thread([&context, ready = std::move(ready)]() mutable {
      try {
        matrix::serve(context, [&](std::uint16_t at) { ready.set_value(at); });
      } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
      }
    });
    port = told.get();
  }
  const std::size_t failed = matrix::lead(context, port, rows);
  if (serving.joinable()) serving.join();
  std::printf("%zu of %zu rows failed\n", failed, rows.size());
  return failed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string_view> arguments(argv + 1, argv + argc);
  try {
    if (arguments.size() == 1 && arguments[0] == "serve") return serve();
    if (arguments.size() >= 3 && arguments[0] == "lead") {
      const int port = argc > 4 ? std::atoi(argv[4]) : 0;
      return lead(arguments[1], arguments[2], static_cast<std::uint16_t>(port));
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  std::fprintf(stderr, "usage: endpoint_matrix serve | lead pairs|all PLACE [PORT]\n");
  return 2;
}
