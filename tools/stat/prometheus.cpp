// SPDX-License-Identifier: MIT
#include "tools/stat/prometheus.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/stat/rows.hpp"

namespace hbmwire::tools::stats {
namespace {

/// Names and values, in order.
using Labels = std::vector<std::pair<std::string_view, std::string>>;

std::string escaped(std::string_view value) {
  std::string text;
  for (const char each : value) {
    if (each == '\\' || each == '"') text += '\\';
    if (each == '\n') {
      text += "\\n";
    } else {
      text += each;
    }
  }
  return text;
}

std::string labels_text(const Labels& labels) {
  std::string text;
  for (const auto& [name, value] : labels)
    text += fmt::format("{}{}=\"{}\"", text.empty() ? "{" : ",", name, escaped(value));
  return text.empty() ? text : text + "}";
}

/// Exact: a double may lose nanoseconds.
std::string seconds_text(std::chrono::nanoseconds time) {
  return fmt::format("{}.{:09}", time.count() / 1'000'000'000, time.count() % 1'000'000'000);
}

/// Writes a metric with all of its samples together, as the format requires.
class Text {
 public:
  void begin(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  }

  void add(const Labels& labels, std::uint64_t value) { add("", labels, fmt::format("{}", value)); }

  void add(std::string_view suffix, const Labels& labels, std::string_view value) {
    text_ += fmt::format("{}{}{} {}\n", name_, suffix, labels_text(labels), value);
  }

  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  std::string_view name_;
  std::string text_;
};

using Processes = std::vector<const ProcessSample*>;

Labels process_labels(const ProcessSample& process) {
  return {{"process", fmt::format("{}", process.now.process)}, {"program", process.now.program}};
}

Labels with(Labels labels, const Labels& more) {
  labels.insert(labels.end(), more.begin(), more.end());
  return labels;
}

Labels series_labels(const TransferLabels& labels) {
  return {{"kind", std::string(to_string(labels.kind))},
          {"path", std::string(name_of(labels.path))},
          {"local", std::string(to_string(labels.local))},
          {"remote", std::string(remote_name(labels.remote))}};
}

void add_transfers(Text& text, const Processes& processes) {
  const auto add_each = [&](std::uint64_t Row::*value) {
    for (const ProcessSample* const process : processes) {
      for (const Row& row : rows_of(*process, SplitBy::all)) {
        text.add(with(with(process_labels(*process), series_labels(row.labels)),
                      {{"nic", row.nic}, {"peer", row.peer}}),
                 row.*value);
      }
    }
  };
  text.begin("hbmwire_transfers_total", "counter", "Transfers that have succeeded.");
  add_each(&Row::operations);
  text.begin("hbmwire_transfer_bytes_total", "counter", "Bytes of transfers that have succeeded.");
  add_each(&Row::bytes);
  text.begin("hbmwire_transfer_failures_total", "counter", "Transfers that have failed.");
  for (const ProcessSample* const process : processes) {
    for (const FailureCounters& each : process->now.counters.failures) {
      text.add(with(process_labels(*process), {{"code", std::string(code_name(each.code))},
                                               {"nic", each.nic},
                                               {"peer", each.peer}}),
               each.operations);
    }
  }
}

void add_times(Text& text, const Processes& processes) {
  text.begin("hbmwire_transfer_duration_seconds", "histogram",
             "Times of transfers that have succeeded, of one in 64 or of all.");
  for (const ProcessSample* const process : processes) {
    for (const TransferTimesHistogram& times : process->now.counters.times) {
      const Labels labels = with(process_labels(*process), series_labels(times.labels));
      std::uint64_t all = 0;
      for (std::size_t i = 0; i < kTimeBuckets; ++i) {
        all += times.transfers[i];
        const std::string bound =
            i + 1 == kTimeBuckets
                ? "+Inf"
                : fmt::format("{}", static_cast<double>(time_bucket_bound(i).count()) / 1e9);
        text.add("_bucket", with(labels, {{"le", bound}}), fmt::format("{}", all));
      }
      text.add("_sum", labels, seconds_text(times.sum));
      text.add("_count", labels, fmt::format("{}", all));
    }
  }
}

/// A metric with one value for each process.
struct ProcessMetric {
  std::string_view name;
  std::string_view type;
  std::string_view help;
  std::uint64_t (*value)(const Counters& counters);
};

constexpr ProcessMetric kProcessMetrics[] = {
    {"hbmwire_transfers_started_total", "counter", "Transfers that were begun.",
     [](const Counters& counters) { return counters.started; }},
    {"hbmwire_transfers_under_way", "gauge", "Transfers that have neither succeeded nor failed.",
     [](const Counters& counters) { return counters.under_way; }},
    {"hbmwire_transfers_queued_total", "counter", "Transfers that could not be posted at once.",
     [](const Counters& counters) { return counters.queued; }},
    {"hbmwire_credit_waits_total", "counter",
     "How often messages began to wait for receives of the peer.",
     [](const Counters& counters) { return counters.credit_waits; }},
    {"hbmwire_connection_retries_total", "counter", "Attempts to connect that were made again.",
     [](const Counters& counters) { return counters.retries; }},
    {"hbmwire_endpoints", "gauge", "Endpoints that are connected or ending.",
     [](const Counters& counters) { return counters.endpoints; }},
    {"hbmwire_endpoint_failures_total", "counter", "Connections that have failed.",
     [](const Counters& counters) { return counters.endpoints_failed; }},
    {"hbmwire_registrations_total", "counter", "Regions of memory that were registered.",
     [](const Counters& counters) { return counters.registrations.registrations; }},
    {"hbmwire_registered_regions", "gauge", "Regions of memory that are registered.",
     [](const Counters& counters) { return counters.registrations.live; }},
    {"hbmwire_registered_bytes", "gauge", "Bytes of the regions that are registered.",
     [](const Counters& counters) { return counters.registrations.live_bytes; }},
    {"hbmwire_registration_cache_hits_total", "counter", "Look-ups that found a registration.",
     [](const Counters& counters) { return counters.registrations.hits; }},
    {"hbmwire_registration_cache_misses_total", "counter", "Look-ups that registered anew.",
     [](const Counters& counters) { return counters.registrations.misses; }},
    {"hbmwire_registration_cache_evictions_total", "counter",
     "Registrations that went for a budget.",
     [](const Counters& counters) { return counters.registrations.evictions; }},
};

void add_process_metrics(Text& text, const Processes& processes) {
  for (const ProcessMetric& metric : kProcessMetrics) {
    text.begin(metric.name, metric.type, metric.help);
    for (const ProcessSample* const process : processes)
      text.add(process_labels(*process), metric.value(process->now.counters));
  }
  text.begin("hbmwire_process_start_time_seconds", "gauge",
             "When the process began to count, in seconds since 1970.");
  for (const ProcessSample* const process : processes) {
    text.add("", process_labels(*process), seconds_text(process->now.since.time_since_epoch()));
  }
  text.begin("hbmwire_process_running", "gauge",
             "1: the process runs; 0: these are its last counts.");
  for (const ProcessSample* const process : processes)
    text.add(process_labels(*process), process->ended ? 0 : 1);
}

/// The counters that a metric of NICs consists of.
enum class Part : std::uint8_t { transmitted, received, errors, others };

Part part_of(const NicCounter& counter) {
  if (counter.name == "port_xmit_data") return Part::transmitted;
  if (counter.name == "port_rcv_data") return Part::received;
  return counts_errors(counter.name) ? Part::errors : Part::others;
}

void add_nic_metric(Text& text, const Sample& sample, Part part) {
  constexpr std::uint64_t kWordBytes = 4;  // the two counters of data count words of four bytes
  for (const NicSample& each : sample.nics) {
    if (part_of(each.now) != part) continue;
    Labels labels{{"nic", each.now.nic}, {"port", fmt::format("{}", each.now.port)}};
    const bool data = part == Part::transmitted || part == Part::received;
    if (!data) labels.emplace_back("counter", each.now.name);
    text.add(labels, data ? each.now.value * kWordBytes : each.now.value);
  }
}

void add_nics(Text& text, const Sample& sample) {
  text.begin("hbmwire_nic_transmitted_bytes_total", "counter",
             "Bytes that a port of a NIC has sent for all processes.");
  add_nic_metric(text, sample, Part::transmitted);
  text.begin("hbmwire_nic_received_bytes_total", "counter",
             "Bytes that a port of a NIC has received for all processes.");
  add_nic_metric(text, sample, Part::received);
  text.begin("hbmwire_nic_errors_total", "counter",
             "Errors that a port of a NIC has counted for all processes.");
  add_nic_metric(text, sample, Part::errors);
  text.begin("hbmwire_nic_reading", "untyped",
             "Other counters of a port of a NIC, as its driver tells them.");
  add_nic_metric(text, sample, Part::others);
}

/// One process for each id: an ended process may have left its id to another one.
Processes processes_of(const Sample& sample) {
  std::set<std::uint32_t> running;
  for (const ProcessSample& each : sample.processes) {
    if (!each.ended) running.insert(each.now.process);
  }
  std::set<std::uint32_t> taken;
  Processes processes;
  for (const ProcessSample& each : sample.processes) {
    if (each.ended && running.contains(each.now.process)) continue;
    if (taken.insert(each.now.process).second) processes.push_back(&each);
  }
  return processes;
}

}  // namespace

std::string prometheus_text(const Sample& sample) {
  const Processes processes = processes_of(sample);
  Text text;
  add_transfers(text, processes);
  add_times(text, processes);
  add_process_metrics(text, processes);
  text.begin("hbmwire_processes", "gauge", "Processes that run and publish their counters.");
  text.add(Labels{}, static_cast<std::uint64_t>(std::ranges::count_if(
                         processes, [](const auto* each) { return !each->ended; })));
  text.begin("hbmwire_unreadable_processes", "gauge",
             "Processes that publish counters of another version of hbmwire.");
  text.add(Labels{}, sample.unreadable.size());
  add_nics(text, sample);
  return text.take();
}

}  // namespace hbmwire::tools::stats
