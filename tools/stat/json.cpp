// SPDX-License-Identifier: MIT
#include "tools/stat/json.hpp"

#include <chrono>

#include "tools/stat/rows.hpp"

namespace hbmwire::tools::stats {
namespace {

/// Seconds since the Unix epoch.
double seconds_of(std::chrono::system_clock::time_point time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

Json labels_json(const TransferLabels& labels) {
  return {{"kind", to_string(labels.kind)},
          {"path", name_of(labels.path)},
          {"local", to_string(labels.local)},
          {"remote", labels.remote ? Json(to_string(*labels.remote)) : Json(nullptr)}};
}

Json transfers_json(const ProcessSample& process) {
  Json list = Json::array();
  for (const Row& row : rows_of(process, SplitBy::all)) {
    Json one = labels_json(row.labels);
    one.update({{"nic", row.nic},
                {"peer", row.peer},
                {"operations", row.operations},
                {"bytes", row.bytes},
                {"operations_per_second", row.operations_per_second},
                {"bytes_per_second", row.bytes_per_second}});
    list.push_back(one);
  }
  return list;
}

Json failures_json(const Counters& counters) {
  Json list = Json::array();
  for (const FailureCounters& each : counters.failures) {
    list.push_back({{"code", code_name(each.code)},
                    {"nic", each.nic},
                    {"peer", each.peer},
                    {"operations", each.operations}});
  }
  return list;
}

Json times_json(const Counters& counters) {
  Json list = Json::array();
  for (const TransferTimesHistogram& each : counters.times) {
    Json one = labels_json(each.labels);
    Json buckets = Json::array();
    for (std::size_t i = 0; i < kTimeBuckets; ++i) {
      if (each.transfers[i] == 0) continue;
      const bool last = i + 1 == kTimeBuckets;
      buckets.push_back({{"most_ns", last ? Json(nullptr) : Json(time_bucket_bound(i).count())},
                         {"transfers", each.transfers[i]}});
    }
    one.update({{"count", each.count()},
                {"sum_ns", each.sum.count()},
                {"median_ns", quantile(each, 0.5).count()},
                {"percentile_99_ns", quantile(each, 0.99).count()},
                {"buckets", buckets}});
    list.push_back(one);
  }
  return list;
}

Json process_json(const ProcessSample& process) {
  const Counters& counters = process.now.counters;
  const RegistrationCounters& memory = counters.registrations;
  return {{"process", process.now.process},
          {"program", process.now.program},
          {"since", seconds_of(process.now.since)},
          {"ended", process.ended},
          {"interval_seconds", process.seconds},
          {"transfers", transfers_json(process)},
          {"failures", failures_json(counters)},
          {"times", times_json(counters)},
          {"started", counters.started},
          {"under_way", counters.under_way},
          {"queued", counters.queued},
          {"credit_waits", counters.credit_waits},
          {"retries", counters.retries},
          {"endpoints", counters.endpoints},
          {"endpoints_failed", counters.endpoints_failed},
          {"registrations",
           {{"hits", memory.hits},
            {"misses", memory.misses},
            {"evictions", memory.evictions},
            {"registrations", memory.registrations},
            {"live", memory.live},
            {"live_bytes", memory.live_bytes}}}};
}

}  // namespace

Json to_json(const Sample& sample) {
  Json processes = Json::array();
  for (const ProcessSample& process : sample.processes) processes.push_back(process_json(process));
  Json unreadable = Json::array();
  for (const UnreadableProcess& each : sample.unreadable)
    unreadable.push_back({{"process", each.process}, {"text", describe_with_hint(each.error)}});
  Json nics = Json::array();
  for (const NicSample& each : sample.nics) {
    nics.push_back({{"nic", each.now.nic},
                    {"port", each.now.port},
                    {"name", each.now.name},
                    {"value", each.now.value},
                    {"change", each.before ? Json(each.now.value - *each.before) : Json(nullptr)},
                    {"error", counts_errors(each.now.name)}});
  }
  return {{"time", seconds_of(sample.time)},
          {"processes", processes},
          {"unreadable", unreadable},
          {"nics", nics}};
}

}  // namespace hbmwire::tools::stats
