// SPDX-License-Identifier: MIT
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "ends.hpp"

// Counters and traces through the C interface agree with the operations that were done.
namespace hbmwire::c_test {
namespace {

using Counts = std::unique_ptr<hbmwire_counters, Freed<hbmwire_counters_free>>;
using Published = std::unique_ptr<hbmwire_published, Freed<hbmwire_published_free>>;
using Trace = std::unique_ptr<hbmwire_trace, Freed<hbmwire_trace_free>>;

void put(const Ends& ends, const Remote& remote, std::uint64_t bytes) {
  const hbmwire_slice from = ends.here(0, bytes);
  const hbmwire_remote_slice to{remote.get(), 0, bytes};
  const auto one = make<Transfer>([&](auto** made, auto* error) {
    return hbmwire_endpoint_put(ends.a.get(), &from, &to, nullptr, made, error);
  });
  ends.until([&] { return hbmwire_transfer_done(one.get()); });
}

hbmwire_counters_info info_of(const Counts& counts) {
  auto info = HBMWIRE_MADE(hbmwire_counters_info);
  good([&](auto* error) { return hbmwire_counters_get_info(counts.get(), &info, error); });
  return info;
}

void expect_puts(const Counts& counts, std::uint64_t operations, std::uint64_t bytes) {
  auto series = HBMWIRE_MADE(hbmwire_transfer_counters);
  std::uint64_t found_operations = 0;
  std::uint64_t found_bytes = 0;
  for (std::size_t i = 0; i < info_of(counts).transfer_count; ++i) {
    good([&](auto* error) { return hbmwire_counters_transfers(counts.get(), i, &series, error); });
    if (series.kind != HBMWIRE_KIND_PUT) continue;
    found_operations += series.operations;
    found_bytes += series.bytes;
  }
  EXPECT_EQ(found_operations, operations);
  EXPECT_EQ(found_bytes, bytes);
}

TEST(CCounters, EachByteOfAPutIsCounted) {
  const Ends ends;
  const Remote remote = ends.target();
  for (int i = 0; i < 130; ++i) put(ends, remote, 100);
  const auto counts = make<Counts>([&](auto** made, auto* error) {
    return hbmwire_endpoint_counters(ends.a.get(), made, error);
  });
  expect_puts(counts, 130, 13000);
  const hbmwire_counters_info info = info_of(counts);
  EXPECT_EQ(info.started, 130U);
  EXPECT_EQ(info.under_way, 0U);
  EXPECT_EQ(info.endpoints, 1U);
  auto series = HBMWIRE_MADE(hbmwire_transfer_counters);
  Failure why;
  EXPECT_EQ(hbmwire_counters_transfers(counts.get(), info.transfer_count, &series, &why.error),
            HBMWIRE_INVALID_ARGUMENT);
  const auto of_worker = make<Counts>([&](auto** made, auto* error) {
    return hbmwire_worker_counters(ends.a_worker.get(), made, error);
  });
  expect_puts(of_worker, 130, 13000);
  auto times = HBMWIRE_MADE(hbmwire_transfer_times);
  std::uint64_t timed = 0;
  for (std::size_t i = 0; i < info_of(of_worker).times_count; ++i) {
    good([&](auto* error) { return hbmwire_counters_times(of_worker.get(), i, &times, error); });
    if (times.kind == HBMWIRE_KIND_PUT) timed += times.count;
    EXPECT_GT(times.sum_ns, 0);
  }
  EXPECT_GE(timed, 2U);
  const auto of_context = make<Counts>([&](auto** made, auto* error) {
    return hbmwire_context_counters(ends.context.get(), made, error);
  });
  expect_puts(of_context, 130, 13000);
  EXPECT_GE(info_of(of_context).live, 1U);
  const auto of_process =
      make<Counts>([&](auto** made, auto* error) { return hbmwire_process_counters(made, error); });
  EXPECT_GE(info_of(of_process).started, 130U);
}

TEST(CCounters, FailuresAreCountedByTheirCode) {
  const Ends ends;
  const hbmwire_slice into = ends.here(0, 64);
  const auto receive = make<Transfer>([&](auto** made, auto* error) {
    return hbmwire_endpoint_receive(ends.a.get(), &into, made, error);
  });
  good([&](auto* error) { return hbmwire_transfer_cancel(receive.get(), error); });
  const auto counts = make<Counts>([&](auto** made, auto* error) {
    return hbmwire_endpoint_counters(ends.a.get(), made, error);
  });
  ASSERT_EQ(info_of(counts).failure_count, 1U);
  auto series = HBMWIRE_MADE(hbmwire_failure_counters);
  good([&](auto* error) { return hbmwire_counters_failures(counts.get(), 0, &series, error); });
  EXPECT_EQ(series.code, HBMWIRE_CANCELLED);
  EXPECT_EQ(series.operations, 1U);
}

TEST(CCounters, NameKindsAndBounds) {
  EXPECT_STREQ(hbmwire_transfer_kind_name(HBMWIRE_KIND_IMMEDIATE), "immediate");
  EXPECT_STREQ(hbmwire_transfer_kind_name(99), "?");
  EXPECT_EQ(hbmwire_time_bucket_bound_ns(0), 128);
  EXPECT_EQ(hbmwire_time_bucket_bound_ns(HBMWIRE_TIME_BUCKETS - 1), HBMWIRE_FOREVER);
  EXPECT_EQ(hbmwire_time_bucket_bound_ns(1000), HBMWIRE_FOREVER);
}

TEST(CCounters, CountersOfANicAreItsPortsFiles) {
  auto info = HBMWIRE_MADE(hbmwire_nic_info);
  const Ends ends;
  good([&](auto* error) { return hbmwire_endpoint_nic(ends.a.get(), &info, error); });
  std::map<std::string, std::uint64_t> all;
  good([&](auto* error) {
    return hbmwire_nic_counters(
        info.name,
        [](void* context, std::uint32_t port, const char* name, std::uint64_t value) {
          EXPECT_EQ(port, 1U);
          (*static_cast<std::map<std::string, std::uint64_t>*>(context))[name] = value;
        },
        &all, error);
  });
  EXPECT_TRUE(all.contains("port_xmit_data"));
}

TEST(CPublished, CountersAreFoundByTheProcess) {
  ::setenv("HBMWIRE_STATS", "yes", 1);
  const Ends ends;
  ::unsetenv("HBMWIRE_STATS");
  const Remote remote = ends.target();
  put(ends, remote, 64);
  const auto self = static_cast<std::uint32_t>(::getpid());
  const auto published = make<Published>(
      [&](auto** made, auto* error) { return hbmwire_published_find(self, made, error); });
  EXPECT_TRUE(hbmwire_published_is_running(published.get()));
  const auto counts = make<Counts>([&](auto** made, auto* error) {
    return hbmwire_published_read(published.get(), made, error);
  });
  EXPECT_GE(info_of(counts).started, 1U);
  std::size_t count = 0;
  std::uint32_t first = 0;
  good([&](auto* error) { return hbmwire_published_list(&first, 1, &count, error); });
  EXPECT_GE(count, 1U);
  EXPECT_NE(first, 0U);
  hbmwire_published* none = nullptr;
  Failure why;
  EXPECT_EQ(hbmwire_published_find(1U << 30U, &none, &why.error), HBMWIRE_NOT_FOUND);
}

TEST(CTrace, TransfersThatEndDuringATraceAreInIt) {
  const Ends ends;
  const Remote remote = ends.target();
  const std::string name =
      std::filesystem::temp_directory_path() / ("hbmwire_c_trace." + std::to_string(::getpid()));
  std::filesystem::remove(name);
  {
    const auto trace = make<Trace>([&](auto** made, auto* error) {
      return hbmwire_trace_start(name.c_str(), 0, made, error);
    });
    EXPECT_EQ(hbmwire_trace_file(trace.get()), name);
    for (int i = 0; i < 10; ++i) put(ends, remote, 64);
    auto counts = HBMWIRE_MADE(hbmwire_trace_counts);
    good([&](auto* error) { return hbmwire_trace_stop(trace.get(), &counts, error); });
    EXPECT_EQ(counts.transfers, 10U);
    EXPECT_EQ(counts.dropped_busy + counts.dropped_full, 0U);
    Failure why;
    EXPECT_EQ(hbmwire_trace_stop(trace.get(), nullptr, &why.error), HBMWIRE_NOT_FOUND);
  }
  EXPECT_GT(std::filesystem::file_size(name), 100U);
  std::filesystem::remove(name);
}

}  // namespace
}  // namespace hbmwire::c_test
