// SPDX-License-Identifier: MIT
#include "tools/perf/report.hpp"

#include <algorithm>

#include "tools/common/output.hpp"
#include "tools/wire/messages.hpp"

namespace hbmwire::tools::perf {
namespace {

Bandwidth bandwidth_in(const wire::PerfReport& report) {
  return {.peak_bytes_per_second = report.peak_bytes_per_second,
          .average_bytes_per_second = report.average_bytes_per_second,
          .messages_per_second = report.messages_per_second};
}

Latency latency_in(const wire::PerfReport& report) {
  return {.min_ns = report.min_ns,
          .max_ns = report.max_ns,
          .typical_ns = report.typical_ns,
          .average_ns = report.average_ns,
          .stdev_ns = report.stdev_ns,
          .percentile_99_ns = report.percentile_99_ns,
          .percentile_99_9_ns = report.percentile_99_9_ns};
}

Bandwidth sum(const Bandwidth& a, const Bandwidth& b) {
  return {.peak_bytes_per_second = a.peak_bytes_per_second + b.peak_bytes_per_second,
          .average_bytes_per_second = a.average_bytes_per_second + b.average_bytes_per_second,
          .messages_per_second = a.messages_per_second + b.messages_per_second};
}

/// Lost messages do not count as moved.
Bandwidth scaled(Bandwidth bandwidth, double share) {
  bandwidth.peak_bytes_per_second *= share;
  bandwidth.average_bytes_per_second *= share;
  bandwidth.messages_per_second *= share;
  return bandwidth;
}

/// Whether the receiver gets completions.
bool has_arrivals(const Work& work) {
  const Verb verb = kind_of(work.request.test).verb;
  return verb == Verb::send || verb == Verb::tag;
}

/// The bandwidth in the direction from `from` to `to`.
Bandwidth direction(const Work& work, const wire::PerfReport& from, const wire::PerfReport& to) {
  const bool counted = has_arrivals(work) && from.messages != 0;
  if (!counted || to.arrivals >= from.messages) return bandwidth_in(from);
  return scaled(bandwidth_in(from),
                static_cast<double>(to.arrivals) / static_cast<double>(from.messages));
}

Verification merge_found(const Work& work, const wire::PerfReport& mine,
                         const wire::PerfReport& theirs) {
  Verification found;
  found.wanted = work.request.verify;
  found.slots = mine.slots + theirs.slots;
  found.bytes = mine.compared_bytes + theirs.compared_bytes;
  found.wrong_bytes = mine.wrong_bytes + theirs.wrong_bytes;
  if (has_arrivals(work)) {
    found.arrivals = mine.arrivals + theirs.arrivals;
    found.expected_arrivals = mine.messages + theirs.messages;
    // In a latency test, `messages` counts rounds, each from its beginning. A timed pass that ends
    // within a round has counted that round, and lacks the arrival of its answer.
    if (work.is_latency() && work.request.duration_s != 0)
      found.expected_arrivals = std::max(found.arrivals, found.expected_arrivals - 1);
  }
  found.problem = mine.problem;
  if (found.problem.empty() && !theirs.problem.empty())
    found.problem = "the peer found: " + wire::printable(theirs.problem);
  return found;
}

}  // namespace

wire::PerfSide to_wire(const MemorySide& side) {
  const Side& from = side.description;
  wire::PerfSide to;
  to.host = from.host;
  to.nic = from.nic;
  to.memory = from.memory;
  to.device = from.device;
  to.path = from.path;
  to.distance = from.distance;
  to.explanation = from.explanation;
  for (const Limit& limit : from.limits) {
    to.limits.push_back({.kind = static_cast<std::uint8_t>(limit.kind),
                         .bytes_per_second = static_cast<std::uint64_t>(limit.bytes_per_second),
                         .what = limit.what});
  }
  to.registered_bytes = from.registered_bytes;
  to.registration_ns = static_cast<std::uint64_t>(from.registration_ns);
  to.registrations = static_cast<std::uint32_t>(from.registrations);
  to.mtu_bytes = side.nic.info().mtu_bytes;
  to.on_device = side.on_device();
  to.emulated = is_emulated();
  return to;
}

Side from_wire(const wire::PerfSide& from) {
  using wire::printable;
  Side to;
  to.host = printable(from.host);
  to.nic = printable(from.nic);
  to.memory = printable(from.memory);
  to.device = printable(from.device);
  to.path = printable(from.path);
  to.distance = printable(from.distance);
  for (const std::string& reason : from.explanation) to.explanation.push_back(printable(reason));
  for (const wire::PerfSide::Limit& limit : from.limits) {
    if (limit.kind > static_cast<std::uint8_t>(Limit::Kind::memcpy)) continue;
    to.limits.push_back({.kind = static_cast<Limit::Kind>(limit.kind),
                         .bytes_per_second = static_cast<double>(limit.bytes_per_second),
                         .what = printable(limit.what)});
  }
  to.registered_bytes = from.registered_bytes;
  to.registration_ns = static_cast<double>(from.registration_ns);
  to.registrations = from.registrations;
  return to;
}

wire::PerfReport to_report(const Measured& measured, const Verification& found) {
  wire::PerfReport report;
  report.messages = measured.messages;
  report.arrivals = measured.arrivals;
  if (measured.bandwidth) {
    report.average_bytes_per_second = measured.bandwidth->average_bytes_per_second;
    report.peak_bytes_per_second = measured.bandwidth->peak_bytes_per_second;
    report.messages_per_second = measured.bandwidth->messages_per_second;
  }
  if (measured.latency) {
    report.min_ns = measured.latency->min_ns;
    report.max_ns = measured.latency->max_ns;
    report.typical_ns = measured.latency->typical_ns;
    report.average_ns = measured.latency->average_ns;
    report.stdev_ns = measured.latency->stdev_ns;
    report.percentile_99_ns = measured.latency->percentile_99_ns;
    report.percentile_99_9_ns = measured.latency->percentile_99_9_ns;
  }
  report.cpu_user = measured.cpu.user;
  report.cpu_system = measured.cpu.system;
  report.slots = found.slots;
  report.compared_bytes = found.bytes;
  report.wrong_bytes = found.wrong_bytes;
  report.problem = found.problem;
  return report;
}

Row merge(const Work& work, std::uint64_t size_bytes, const wire::PerfReport& mine,
          const wire::PerfReport& theirs) {
  const wire::PerfReport& client = work.is_client() ? mine : theirs;
  const wire::PerfReport& server = work.is_client() ? theirs : mine;
  Row row;
  row.size_bytes = size_bytes;
  row.iterations = client.messages;
  if (work.is_latency()) {
    row.latency = latency_in(client);
  } else {
    row.bandwidth = direction(work, client, server);
    if (work.request.bidirectional)
      row.bandwidth = sum(*row.bandwidth, direction(work, server, client));
  }
  row.cpu = {.user = mine.cpu_user, .system = mine.cpu_system};
  row.peer_cpu = {.user = theirs.cpu_user, .system = theirs.cpu_system};
  row.verification = merge_found(work, mine, theirs);
  return row;
}

}  // namespace hbmwire::tools::perf
