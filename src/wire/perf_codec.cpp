// SPDX-License-Identifier: MIT
#include "wire/perf_codec.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>

#include "wire/address_codec.hpp"

namespace hbmwire::wire {

namespace {

constexpr std::size_t kMaxNameBytes = 255;
constexpr std::size_t kMaxSentenceBytes = 2048;
constexpr std::uint32_t kMaxDurationS = 7 * 24 * 3600;
constexpr std::uint8_t kLastTest = static_cast<std::uint8_t>(PerfTest::tag_lat);
constexpr std::uint8_t kLastConnection = static_cast<std::uint8_t>(PerfConnection::ud);

void put_flag(Writer& out, bool flag) { out.integer(static_cast<std::uint8_t>(flag ? 1 : 0)); }

bool get_flag(Reader& in) {
  const auto value = in.integer<std::uint8_t>();
  if (value > 1) in.fail();
  return value == 1;
}

void put_number(Writer& out, double number) { out.integer(std::bit_cast<std::uint64_t>(number)); }

double get_number(Reader& in) {
  const auto number = std::bit_cast<double>(in.integer<std::uint64_t>());
  if (!std::isfinite(number)) in.fail();
  return number;
}

template <std::unsigned_integral T>
T get_within(Reader& in, T least, T most) {
  const T value = in.integer<T>();
  if (value < least || value > most) in.fail();
  return value;
}

template <class Enum>
Enum get_enum(Reader& in, std::uint8_t last) {
  return static_cast<Enum>(get_within<std::uint8_t>(in, 1, last));
}

std::uint8_t get_length(Reader& in) {
  return get_within<std::uint8_t>(in, 0, static_cast<std::uint8_t>(kMaxPerfListLength));
}

PerfSide::Limit get_limit(Reader& in) {
  PerfSide::Limit limit;
  limit.kind = in.integer<std::uint8_t>();
  limit.bytes_per_second = in.integer<std::uint64_t>();
  limit.what = in.text(kMaxNameBytes);
  return limit;
}

PerfQueues::Queue get_queue(Reader& in) {
  constexpr std::uint32_t kMax24 = 0xffffffU;
  PerfQueues::Queue queue;
  queue.number = get_within<std::uint32_t>(in, 0, kMax24);
  queue.packet_sequence = get_within<std::uint32_t>(in, 0, kMax24);
  return queue;
}

/// The numbers of a report, in the order in which they travel.
template <class Report, class Visit>
void each_number(Report& report, Visit visit) {
  visit(report.average_bytes_per_second);
  visit(report.peak_bytes_per_second);
  visit(report.messages_per_second);
  visit(report.min_ns);
  visit(report.max_ns);
  visit(report.typical_ns);
  visit(report.average_ns);
  visit(report.stdev_ns);
  visit(report.percentile_99_ns);
  visit(report.percentile_99_9_ns);
  visit(report.cpu_user);
  visit(report.cpu_system);
}

}  // namespace

void put(Writer& out, const PerfRequest& m) {
  out.integer(static_cast<std::uint8_t>(m.test));
  out.integer(static_cast<std::uint8_t>(m.connection));
  out.integer(m.size_bytes);
  out.integer(m.iterations);
  out.integer(m.duration_s);
  out.integer(m.queue_pairs);
  out.integer(m.tx_depth);
  out.integer(m.rx_depth);
  out.integer(m.post_list);
  out.integer(m.inline_bytes);
  out.integer(m.cq_moderation);
  out.integer(m.mtu_bytes);
  out.integer(m.reads_out);
  out.integer(m.flows);
  out.integer(m.burst);
  out.integer(m.seed);
  out.integer(m.bytes_per_second);
  out.integer(m.messages_per_second);
  out.integer(m.service_level);
  out.integer(m.traffic_class);
  out.integer(m.ack_timeout);
  out.integer(m.retries);
  for (const bool flag : {m.all_sizes, m.bidirectional, m.events, m.rdma_cm, m.verify,
                          m.compare_swap, m.warm_up, m.one_by_immediate})
    put_flag(out, flag);
  out.text(m.memory, kMaxNameBytes);
}

PerfRequest get(Reader& in, std::in_place_type_t<PerfRequest> /*tag*/) {
  PerfRequest m;
  m.test = get_enum<PerfTest>(in, kLastTest);
  m.connection = get_enum<PerfConnection>(in, kLastConnection);
  m.size_bytes = get_within<std::uint64_t>(in, 1, kMaxPerfSizeBytes);
  m.iterations = get_within<std::uint64_t>(in, 0, kMaxPerfIterations);
  m.duration_s = get_within<std::uint32_t>(in, 0, kMaxDurationS);
  if ((m.iterations == 0) == (m.duration_s == 0)) in.fail();
  m.queue_pairs = get_within<std::uint32_t>(in, 1, kMaxPerfQueuePairs);
  m.tx_depth = get_within<std::uint32_t>(in, 1, kMaxPerfDepth);
  m.rx_depth = get_within<std::uint32_t>(in, 1, kMaxPerfDepth);
  m.post_list = get_within<std::uint32_t>(in, 1, m.tx_depth);
  m.inline_bytes = in.integer<std::uint32_t>();
  m.cq_moderation = get_within<std::uint32_t>(in, 0, m.tx_depth);
  m.mtu_bytes = in.integer<std::uint32_t>();
  m.reads_out = in.integer<std::uint32_t>();
  m.flows = get_within<std::uint32_t>(in, 1, kMaxPerfFlows);
  m.burst = get_within<std::uint32_t>(in, 1, kMaxPerfDepth);
  m.seed = in.integer<std::uint32_t>();
  m.bytes_per_second = in.integer<std::uint64_t>();
  m.messages_per_second = in.integer<std::uint64_t>();
  m.service_level = get_within<std::uint8_t>(in, 0, 15);
  m.traffic_class = in.integer<std::uint8_t>();
  m.ack_timeout = get_within<std::uint8_t>(in, 0, 31);
  m.retries = get_within<std::uint8_t>(in, 0, 7);
  for (bool* const flag : {&m.all_sizes, &m.bidirectional, &m.events, &m.rdma_cm, &m.verify,
                           &m.compare_swap, &m.warm_up, &m.one_by_immediate})
    *flag = get_flag(in);
  m.memory = in.text(kMaxNameBytes);
  return m;
}

void put(Writer& out, const PerfSide& m) {
  for (const std::string* const text :
       {&m.host, &m.nic, &m.memory, &m.device, &m.path, &m.distance})
    out.text(*text, kMaxNameBytes);
  const auto length = [](const auto& list) {
    return static_cast<std::uint8_t>(std::min(list.size(), kMaxPerfListLength));
  };
  out.integer(length(m.explanation));
  for (std::size_t i = 0; i < length(m.explanation); ++i)
    out.text(m.explanation[i], kMaxSentenceBytes);
  out.integer(length(m.limits));
  for (std::size_t i = 0; i < length(m.limits); ++i) {
    out.integer(m.limits[i].kind);
    out.integer(m.limits[i].bytes_per_second);
    out.text(m.limits[i].what, kMaxNameBytes);
  }
  out.integer(m.registered_bytes);
  out.integer(m.registration_ns);
  out.integer(m.registrations);
  out.integer(m.mtu_bytes);
  out.integer(m.reads_in);
  out.integer(m.reads_out);
  put_flag(out, m.on_device);
  put_flag(out, m.emulated);
}

PerfSide get(Reader& in, std::in_place_type_t<PerfSide> /*tag*/) {
  PerfSide m;
  for (std::string* const text : {&m.host, &m.nic, &m.memory, &m.device, &m.path, &m.distance})
    *text = in.text(kMaxNameBytes);
  for (unsigned left = get_length(in); left != 0; --left)
    m.explanation.push_back(in.text(kMaxSentenceBytes));
  for (unsigned left = get_length(in); left != 0; --left) m.limits.push_back(get_limit(in));
  m.registered_bytes = in.integer<std::uint64_t>();
  m.registration_ns = in.integer<std::uint64_t>();
  m.registrations = in.integer<std::uint32_t>();
  m.mtu_bytes = in.integer<std::uint32_t>();
  m.reads_in = in.integer<std::uint32_t>();
  m.reads_out = in.integer<std::uint32_t>();
  m.on_device = get_flag(in);
  m.emulated = get_flag(in);
  return m;
}

void put(Writer& out, const PerfQueues& m) {
  put(out, m.first);
  out.integer(m.memory.address);
  out.integer(m.memory.length_bytes);
  out.integer(m.memory.remote_key);
  out.integer(static_cast<std::uint16_t>(m.queues.size()));
  for (const PerfQueues::Queue& queue : m.queues) {
    out.integer(queue.number);
    out.integer(queue.packet_sequence);
  }
  out.integer(m.service_port);
}

PerfQueues get(Reader& in, std::in_place_type_t<PerfQueues> /*tag*/) {
  PerfQueues m;
  m.first = get_connection_address(in);
  m.memory.address = in.integer<std::uint64_t>();
  m.memory.length_bytes = in.integer<std::uint64_t>();
  m.memory.remote_key = in.integer<std::uint32_t>();
  if (m.memory.length_bytes > ~std::uint64_t{0} - m.memory.address) in.fail();
  const auto count =
      get_within<std::uint16_t>(in, 0, static_cast<std::uint16_t>(kMaxPerfQueuePairs));
  for (unsigned left = count <= kMaxPerfQueuePairs ? count : 0; left != 0; --left)
    m.queues.push_back(get_queue(in));
  m.service_port = in.integer<std::uint16_t>();
  return m;
}

void put(Writer& out, const PerfReport& m) {
  out.integer(m.messages);
  each_number(m, [&](const double& number) { put_number(out, number); });
  out.integer(m.slots);
  out.integer(m.compared_bytes);
  out.integer(m.wrong_bytes);
  out.integer(m.arrivals);
  out.text(m.problem, kMaxSentenceBytes);
}

PerfReport get(Reader& in, std::in_place_type_t<PerfReport> /*tag*/) {
  PerfReport m;
  m.messages = in.integer<std::uint64_t>();
  each_number(m, [&](double& number) { number = get_number(in); });
  m.slots = in.integer<std::uint64_t>();
  m.compared_bytes = in.integer<std::uint64_t>();
  m.wrong_bytes = in.integer<std::uint64_t>();
  m.arrivals = in.integer<std::uint64_t>();
  m.problem = in.text(kMaxSentenceBytes);
  return m;
}

}  // namespace hbmwire::wire
