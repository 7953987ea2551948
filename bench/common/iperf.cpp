// SPDX-License-Identifier: MIT
#include "bench/common/iperf.hpp"

#include <stdexcept>
#include <string>

#include "bench/common/pair.hpp"
#include <nlohmann/json.hpp>

namespace hbmwire::bench {

double iperf_bytes_per_ns(std::uint64_t bytes) {
  const unsigned port = free_port();
  const std::string at = std::to_string(port);
  const ProgramPair pair{
      .server = {"iperf3", "-s", "-1", "-4", "-p", at},
      .client = {"iperf3", "-c", "127.0.0.1", "-p", at, "-n", std::to_string(bytes), "-J"},
      .port = port};
  const auto told = nlohmann::json::parse(run_pair(pair), nullptr, false);
  const auto at_receiver = nlohmann::json::json_pointer("/end/sum_received/bits_per_second");
  const double bits = told.is_discarded() ? 0 : told.value(at_receiver, 0.0);
  if (bits <= 0) throw std::runtime_error("iperf3 gave no figure (package iperf3)");
  return bits / 8e9;
}

}  // namespace hbmwire::bench
