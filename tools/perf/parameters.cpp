// SPDX-License-Identifier: MIT
#include "tools/perf/parameters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "hbmwire/low_level/connection.hpp"

namespace hbmwire::tools::perf {
namespace {

constexpr std::array<TestKind, 14> kTests{{
    {PerfTest::write_bw, "write_bw", Verb::write, Measure::bandwidth, "RDMA_Write"},
    {PerfTest::write_lat, "write_lat", Verb::write, Measure::latency, "RDMA_Write"},
    {PerfTest::read_bw, "read_bw", Verb::read, Measure::bandwidth, "RDMA_Read"},
    {PerfTest::read_lat, "read_lat", Verb::read, Measure::latency, "RDMA_Read"},
    {PerfTest::send_bw, "send_bw", Verb::send, Measure::bandwidth, "Send"},
    {PerfTest::send_lat, "send_lat", Verb::send, Measure::latency, "Send"},
    {PerfTest::atomic_bw, "atomic_bw", Verb::atomic, Measure::bandwidth, "Atomic"},
    {PerfTest::atomic_lat, "atomic_lat", Verb::atomic, Measure::latency, "Atomic"},
    {PerfTest::put_bw, "put_bw", Verb::put, Measure::bandwidth, "Put"},
    {PerfTest::put_lat, "put_lat", Verb::put, Measure::latency, "Put"},
    {PerfTest::get_bw, "get_bw", Verb::get, Measure::bandwidth, "Get"},
    {PerfTest::get_lat, "get_lat", Verb::get, Measure::latency, "Get"},
    {PerfTest::tag_bw, "tag_bw", Verb::tag, Measure::bandwidth, "Tag"},
    {PerfTest::tag_lat, "tag_lat", Verb::tag, Measure::latency, "Tag"},
}};

// perftest's limit. Larger messages take longer than a completion, so each of them may have one,
// and the card's memory is not held until a hundred messages have ended.
constexpr std::uint64_t kModeratedBytes = 8192;
constexpr std::uint32_t kModeration = 100;

tl::unexpected<Failure> cannot_configure(const std::string& sentence) {
  return fail("configure: " + sentence, kExitUsage);
}

// Whether only the client starts operations: the peer's NIC answers them, without its CPU.
bool has_one_way(Verb verb) {
  return verb == Verb::read || verb == Verb::atomic || verb == Verb::get;
}

Outcome<void> check_connection(const PerfRequest& request, const TestKind& kind) {
  if (request.connection == PerfConnection::rc) return {};
  if (!is_verbs(request.test)) {
    return cannot_configure(
        fmt::format("{} goes by endpoints, which are reliable: leave out -c", kind.name));
  }
  const bool carried = kind.verb == Verb::send ||
                       (kind.verb == Verb::write && request.connection == PerfConnection::uc);
  if (carried) return {};
  return cannot_configure(
      fmt::format("{} can't be done on {} queue pairs, by RDMA's own rules: choose -c RC",
                  kind.name, to_string(request.connection)));
}

}  // namespace

const TestKind& kind_of(PerfTest test) noexcept {
  return *std::ranges::find(kTests, test, &TestKind::test);
}

std::optional<PerfTest> parse_test(std::string_view name) noexcept {
  if (name.starts_with("ib_")) name.remove_prefix(3);
  const auto found = std::ranges::find(kTests, name, &TestKind::name);
  if (found == kTests.end()) return std::nullopt;
  return found->test;
}

std::vector<std::string_view> test_names() {
  std::vector<std::string_view> names;
  for (const TestKind& kind : kTests) names.push_back(kind.name);
  return names;
}

bool is_verbs(PerfTest test) noexcept {
  // wire::PerfTest lists the tests of verbs first.
  return static_cast<int>(test) <= static_cast<int>(PerfTest::atomic_lat);
}

std::string_view to_string(PerfConnection connection) noexcept {
  switch (connection) {
    case PerfConnection::uc:
      return "UC";
    case PerfConnection::ud:
      return "UD";
    default:
      return "RC";
  }
}

Outcome<void> check(const PerfRequest& request) {
  const TestKind& kind = kind_of(request.test);
  HBMWIRE_TRY(check_connection(request, kind));
  const bool latency = kind.measure == Measure::latency;
  if (latency && request.bidirectional)
    return cannot_configure(fmt::format("{} goes to and fro already: leave out -b", kind.name));
  if (latency && request.queue_pairs != 1)
    return cannot_configure(
        fmt::format("{} measures one message at a time: leave out -q", kind.name));
  if (latency && request.post_list != 1)
    return cannot_configure(
        fmt::format("{} measures one message at a time: leave out -l", kind.name));
  if (kind.verb == Verb::atomic && (request.size_bytes != kAtomicBytes || request.all_sizes))
    return cannot_configure("an atomic operation moves 8 bytes: leave out -s and -a");
  if (request.all_sizes && request.duration_s != 0)
    return cannot_configure("-D measures one size: leave out -a, or -D");
  if (request.inline_bytes != 0 && (has_one_way(kind.verb) || !is_verbs(request.test)))
    return cannot_configure(
        fmt::format("{} sends no data that could be inlined: leave out -I", kind.name));
  if (!is_verbs(request.test) && request.post_list != 1)
    return cannot_configure(
        fmt::format("{} starts one transfer by each call: leave out -l", kind.name));
  if (!is_verbs(request.test) && request.cq_moderation != 0)
    return cannot_configure(
        fmt::format("{} has endpoints see to completions: leave out -Q", kind.name));
  if (request.cq_moderation > request.tx_depth)
    return cannot_configure("-Q must not exceed -t: the queue would be full without a completion");
  if (request.post_list > request.tx_depth)
    return cannot_configure("-l must not exceed -t: a list has to fit the queue");
  const bool receives = kind.verb == Verb::send || kind.verb == Verb::tag;
  if (receives && request.post_list > 1 && request.post_list > request.rx_depth / 2)
    return cannot_configure(
        "-l must not exceed half of -r: the receiver would not keep up with one list");
  if (request.rdma_cm && !is_verbs(request.test))
    return cannot_configure(
        fmt::format("-R is for tests on verbs: {} connects as endpoints do", kind.name));
  if (request.rdma_cm && request.connection != PerfConnection::rc)
    return cannot_configure("-R connects RC queue pairs: leave out -c");
  return {};
}

std::vector<std::uint64_t> sizes_of(const PerfRequest& request) {
  if (!request.all_sizes) return {request.size_bytes};
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t size = 2; size <= request.size_bytes; size *= 2) sizes.push_back(size);
  return sizes;
}

std::uint32_t moderation_of(const PerfRequest& request, std::uint64_t size_bytes) {
  std::uint32_t wanted = request.cq_moderation;
  if (wanted == 0) wanted = size_bytes > kModeratedBytes ? 1 : kModeration;
  wanted = std::min(wanted, request.tx_depth);
  // A posted list has at most one completion, so the number is a multiple of the list's length.
  wanted = std::max(wanted, request.post_list);
  return wanted / request.post_list * request.post_list;
}

bool goes_both_ways(const PerfRequest& request) noexcept {
  const TestKind& kind = kind_of(request.test);
  return request.bidirectional || (kind.measure == Measure::latency && !has_one_way(kind.verb));
}

std::string title_of(const PerfRequest& request) {
  const TestKind& kind = kind_of(request.test);
  return fmt::format("{}{} {} Test", kind.title, request.bidirectional ? " Bidirectional" : "",
                     kind.measure == Measure::bandwidth ? "BW" : "Latency");
}

std::vector<Parameter> describe(const PerfRequest& request) {
  const TestKind& kind = kind_of(request.test);
  std::vector<Parameter> list;
  const auto add = [&](const char* label, const char* key, Json value) {
    list.push_back({label, key, std::move(value)});
  };
  add("Number of qps", "number_of_qps", request.queue_pairs);
  if (is_verbs(request.test))
    add("Connection type", "connection_type", to_string(request.connection));
  add("TX depth", "tx_depth", request.tx_depth);
  if (kind.verb == Verb::send || kind.verb == Verb::tag)
    add("RX depth", "rx_depth", request.rx_depth);
  if (request.duration_s != 0) {
    add("Duration [s]", "duration_s", request.duration_s);
  } else {
    add("Iterations", "iterations", request.iterations);
  }
  if (request.post_list > 1) add("Post List", "post_list", request.post_list);
  if (request.flows > 1) add("Flows", "flows", request.flows);
  if (request.events) add("Completions", "completions", "events");
  if (request.bytes_per_second != 0) add("Rate [B/s]", "rate_limit", request.bytes_per_second);
  if (request.messages_per_second != 0)
    add("Rate [msg/s]", "message_rate_limit", request.messages_per_second);
  if (request.service_level != 0) add("Service level", "service_level", request.service_level);
  if (request.traffic_class != 0) add("Traffic class", "traffic_class", request.traffic_class);
  if (is_verbs(request.test)) add("rdma_cm QPs", "rdma_cm_qps", request.rdma_cm ? "ON" : "OFF");
  if (kind.verb == Verb::atomic)
    add("Atomic type", "atomic_type", request.compare_swap ? "CMP_AND_SWAP" : "FETCH_AND_ADD");
  add("Verification", "verification", request.verify ? "ON" : "OFF");
  return list;
}

}  // namespace hbmwire::tools::perf
