// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/common/failure.hpp"
#include "tools/perf/result.hpp"
#include "tools/wire/perf_messages.hpp"

/// What is measured: the client decides, and both sides go by the same request.
namespace hbmwire::tools::perf {

using wire::PerfConnection;
using wire::PerfRequest;
using wire::PerfTest;

/// Of an operand of atomics.
inline constexpr std::uint64_t kAtomicBytes = 8;

enum class Verb : std::uint8_t { write, read, send, atomic, put, get, tag };
enum class Role : std::uint8_t { server, client };

struct TestKind {
  PerfTest test;
  std::string_view name;  ///< "write_bw"
  Verb verb;
  Measure measure;
  std::string_view title;  ///< as perftest's banner has it, less "Test"
};

[[nodiscard]] const TestKind& kind_of(PerfTest test) noexcept;

/// Nothing for a name that is none. perftest's own are taken, too: "ib_write_bw".
[[nodiscard]] std::optional<PerfTest> parse_test(std::string_view name) noexcept;

[[nodiscard]] std::vector<std::string_view> test_names();

/// Straight on verbs; the others go by the endpoint API.
[[nodiscard]] bool is_verbs(PerfTest test) noexcept;

[[nodiscard]] std::string_view to_string(PerfConnection connection) noexcept;

/// What can't be asked for, whatever the devices: Stage::configure's sentence.
[[nodiscard]] Outcome<void> check(const PerfRequest& request);

/// The sizes of the run, ascending.
[[nodiscard]] std::vector<std::uint64_t> sizes_of(const PerfRequest& request);

/// One completion for so many requests of this size.
[[nodiscard]] std::uint32_t moderation_of(const PerfRequest& request, std::uint64_t size_bytes);

/// Whether the bytes of a test go both ways.
[[nodiscard]] bool goes_both_ways(const PerfRequest& request) noexcept;

/// "RDMA_Write Bidirectional BW Test".
[[nodiscard]] std::string title_of(const PerfRequest& request);

/// For banner and JSON.
[[nodiscard]] std::vector<Parameter> describe(const PerfRequest& request);

}  // namespace hbmwire::tools::perf
