// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tools/wire/fields.hpp"
#include "tools/wire/perf_messages.hpp"

namespace hbmwire::tools::wire {

inline constexpr std::size_t kMaxNameBytes = 255;
inline constexpr std::size_t kMaxSentenceBytes = 2048;
inline constexpr std::uint32_t kMaxDurationS = 7 * 24 * 3600;

void fields(auto& codec, Of<PerfRequest> auto& m) {
  codec.choice(m.test, PerfTest::tag_lat);
  codec.choice(m.connection, PerfConnection::ud);
  codec.number(m.size_bytes, std::uint64_t{1}, kMaxPerfSizeBytes);
  codec.number(m.iterations, std::uint64_t{0}, kMaxPerfIterations);
  codec.number(m.duration_s, 0U, kMaxDurationS);
  codec.require((m.iterations == 0) != (m.duration_s == 0));
  codec.number(m.queue_pairs, 1U, kMaxPerfQueuePairs);
  codec.number(m.tx_depth, 1U, kMaxPerfDepth);
  codec.number(m.rx_depth, 1U, kMaxPerfDepth);
  codec.number(m.post_list, 1U, m.tx_depth);
  codec.number(m.inline_bytes);
  codec.number(m.cq_moderation, 0U, m.tx_depth);
  codec.number(m.mtu_bytes);
  codec.number(m.reads_out);
  codec.number(m.flows, 1U, kMaxPerfFlows);
  codec.number(m.burst, 1U, kMaxPerfDepth);
  codec.number(m.seed);
  codec.number(m.bytes_per_second);
  codec.number(m.messages_per_second);
  codec.number(m.service_level, std::uint8_t{0}, std::uint8_t{15});
  codec.number(m.traffic_class);
  codec.number(m.ack_timeout, std::uint8_t{0}, std::uint8_t{31});
  codec.number(m.retries, std::uint8_t{0}, std::uint8_t{7});
  for (auto* const flag : {&m.all_sizes, &m.bidirectional, &m.events, &m.rdma_cm, &m.verify,
                           &m.compare_swap, &m.warm_up, &m.one_by_immediate})
    codec.flag(*flag);
  codec.text(m.memory, kMaxNameBytes);
}

void fields(auto& codec, Of<PerfSide::Limit> auto& limit) {
  codec.number(limit.kind);
  codec.number(limit.bytes_per_second);
  codec.text(limit.what, kMaxNameBytes);
}

void fields(auto& codec, Of<PerfSide> auto& m) {
  for (auto* const text : {&m.host, &m.nic, &m.memory, &m.device, &m.path, &m.distance})
    codec.text(*text, kMaxNameBytes);
  codec.template list<std::uint8_t>(
      m.explanation, kMaxPerfListLength,
      [](auto& list, auto& sentence) { list.text(sentence, kMaxSentenceBytes); });
  codec.template list<std::uint8_t>(m.limits, kMaxPerfListLength,
                                    [](auto& list, auto& limit) { fields(list, limit); });
  codec.number(m.registered_bytes);
  codec.number(m.registration_ns);
  codec.number(m.registrations);
  codec.number(m.mtu_bytes);
  codec.number(m.reads_in);
  codec.number(m.reads_out);
  codec.flag(m.on_device);
  codec.flag(m.emulated);
}

void fields(auto& codec, Of<PerfQueues> auto& m) {
  fields(codec, m.first);
  fields(codec, m.memory);
  codec.template list<std::uint16_t>(m.queues, kMaxPerfQueuePairs, [](auto& list, auto& queue) {
    list.number(queue.number, 0U, kMax24Bits);
    list.number(queue.packet_sequence, 0U, kMax24Bits);
  });
  codec.number(m.service_port);
}

void fields(auto& codec, Of<PerfReport> auto& m) {
  codec.number(m.messages);
  for (auto* const number :
       {&m.average_bytes_per_second, &m.peak_bytes_per_second, &m.messages_per_second, &m.min_ns,
        &m.max_ns, &m.typical_ns, &m.average_ns, &m.stdev_ns, &m.percentile_99_ns,
        &m.percentile_99_9_ns, &m.cpu_user, &m.cpu_system})
    codec.number(*number);
  codec.number(m.slots);
  codec.number(m.compared_bytes);
  codec.number(m.wrong_bytes);
  codec.number(m.arrivals);
  codec.text(m.problem, kMaxSentenceBytes);
}

}  // namespace hbmwire::tools::wire
