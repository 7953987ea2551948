// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/common/failure.hpp"
#include "tools/perf/result.hpp"
#include "tools/wire/perf_messages.hpp"

/// The parameters of a measurement. The client decides, and both sides use the same request.
namespace hbmwire::tools::perf {

using wire::PerfConnection;
using wire::PerfRequest;
using wire::PerfTest;

/// Size of an operand of atomics.
inline constexpr std::uint64_t kAtomicBytes = 8;

enum class Verb : std::uint8_t { write, read, send, atomic, put, get, tag };
enum class Role : std::uint8_t { server, client };

struct TestKind {
  PerfTest test;
  std::string_view name;  ///< "write_bw"
  Verb verb;
  Measure measure;
  std::string_view title;  ///< as in perftest's banner, without "Test"
};

[[nodiscard]] const TestKind& kind_of(PerfTest test) noexcept;

/// Empty for an unknown name. Also accepts perftest's names: "ib_write_bw".
[[nodiscard]] std::optional<PerfTest> parse_test(std::string_view name) noexcept;

[[nodiscard]] std::vector<std::string_view> test_names();

/// Whether the test uses verbs directly; the others use the endpoint API.
[[nodiscard]] bool is_verbs(PerfTest test) noexcept;

[[nodiscard]] std::string_view to_string(PerfConnection connection) noexcept;

/// Rejects impossible requests, independent of devices. Errors: Stage::configure.
[[nodiscard]] Outcome<void> check(const PerfRequest& request);

/// The sizes of the run, ascending.
[[nodiscard]] std::vector<std::uint64_t> sizes_of(const PerfRequest& request);

/// The number of requests of this size per completion.
[[nodiscard]] std::uint32_t moderation_of(const PerfRequest& request, std::uint64_t size_bytes);

/// Whether the test moves bytes in both directions.
[[nodiscard]] bool goes_both_ways(const PerfRequest& request) noexcept;

/// "RDMA_Write Bidirectional BW Test".
[[nodiscard]] std::string title_of(const PerfRequest& request);

/// The parameters for banner and JSON.
[[nodiscard]] std::vector<Parameter> describe(const PerfRequest& request);

}  // namespace hbmwire::tools::perf
