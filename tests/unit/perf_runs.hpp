// SPDX-License-Identifier: MIT
#pragma once

#include "hbmwire/low_level/connection.hpp"

#include "tools/perf/result.hpp"

/// Results of `hbmwire perf`, for tests of its outputs.
namespace hbmwire::tools::perf {

inline Verification verified() {
  return {.wanted = true,
          .slots = 128,
          .bytes = 1 << 20,
          .wrong_bytes = 0,
          .arrivals = 5000,
          .expected_arrivals = 5000,
          .problem = ""};
}

inline Row bandwidth_row(std::uint64_t size_bytes, double bytes_per_second, double noise = 0.01) {
  Row row{.size_bytes = size_bytes, .iterations = 5000};
  row.bandwidth =
      Bandwidth{.peak_bytes_per_second = bytes_per_second * 1.1,
                .average_bytes_per_second = bytes_per_second,
                .messages_per_second = bytes_per_second / static_cast<double>(size_bytes),
                .noise = noise};
  row.cpu = CpuUse{.user = 0.75, .system = 0.25};
  row.peer_cpu = CpuUse{.user = 0.125, .system = 0};
  row.memcpy_bytes_per_second = 60e9;
  row.verification = verified();
  return row;
}

inline Row latency_row(std::uint64_t size_bytes, double typical_ns, double noise = 0.01) {
  Row row{.size_bytes = size_bytes, .iterations = 1000};
  row.latency = Latency{.min_ns = typical_ns * 0.9,
                        .max_ns = typical_ns * 20,
                        .typical_ns = typical_ns,
                        .average_ns = typical_ns * 1.1,
                        .stdev_ns = typical_ns * 0.2,
                        .percentile_99_ns = typical_ns * 2,
                        .percentile_99_9_ns = typical_ns * 10,
                        .noise = noise};
  row.verification = verified();
  return row;
}

inline Side side(const char* nic, const char* memory) {
  Side side;
  side.host = "node";
  side.nic = nic;
  side.memory = memory;
  side.device = "gaudi2 0000:33:00.0";
  side.path = "zero-copy dma-buf";
  side.distance = "PIX";
  side.registered_bytes = 1 << 20;
  side.registration_ns = 123'456;
  side.registrations = 1;
  return side;
}

inline Limit link_limit(double gigabits) {
  return {.kind = Limit::Kind::link,
          .bytes_per_second = gigabits * 1e9 / 8,
          .what = "link of mlx5_0:1"};
}

inline RunResult write_bw_run() {
  RunResult run;
  run.test = "write_bw";
  run.title = "RDMA_Write BW Test";
  run.parameters = {{.label = "Number of qps", .key = "number_of_qps", .value = 1},
                    {.label = "TX depth", .key = "tx_depth", .value = 128},
                    {.label = "Connection type", .key = "connection_type", .value = "RC"},
                    {.label = "Mtu [B]", .key = "mtu", .value = 4096}};
  run.local = side("mlx5_0:1", "gaudi");
  run.remote = side("mlx5_1:1", "gaudi");
  run.local.limits = {link_limit(100)};
  run.remote.limits = {link_limit(200)};
  run.rows = {bandwidth_row(4096, 6.25e9)};
  return run;
}

inline RunResult sweep_run() {
  RunResult run = write_bw_run();
  run.rows.clear();
  for (std::uint64_t size = 2; size <= (8U << 20); size *= 2) {
    const auto bytes = static_cast<double>(size);
    run.rows.push_back(bandwidth_row(size, 12e9 * bytes / (bytes + 4096)));
  }
  return run;
}

inline RunResult write_lat_run() {
  RunResult run = write_bw_run();
  run.test = "write_lat";
  run.title = "RDMA_Write Latency Test";
  run.measure = Measure::latency;
  run.rows = {latency_row(2, 830), latency_row(65536, 9123)};
  return run;
}

}  // namespace hbmwire::tools::perf
