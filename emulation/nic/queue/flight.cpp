// SPDX-License-Identifier: MIT
#include "emulation/nic/queue/flight.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

namespace hbmwire::emulation::nic {
namespace {

std::uint64_t duration_ns(std::uint64_t bytes, const Behaviour& behaviour) {
  if (behaviour.rate_bits_per_s == 0) return 0;
  // At 1 bit/s. The product with the longest message, 2 GiB, fits into 64 bits.
  constexpr std::uint64_t kNsPerByteAt1 = 8'000'000'000;
  return std::min(bytes, kMaxMessageBytes) * kNsPerByteAt1 / behaviour.rate_bits_per_s;
}

/// Reserves a direction of a port for `duration_ns`, from when it is free, but not before
/// `begin_ns`. Returns the end of that time.
std::uint64_t reserve(std::atomic<std::uint64_t>& free_ns, std::uint64_t begin_ns,
                      std::uint64_t duration_ns) {
  if (duration_ns == 0) return begin_ns;
  std::uint64_t free = free_ns.load();
  std::uint64_t end = 0;
  do {
    end = std::max(free, begin_ns) + duration_ns;
  } while (!free_ns.compare_exchange_weak(free, end));
  return end;
}

/// From Steele, Lea, Flood: Fast splittable pseudorandom number generators (2014).
std::uint64_t mix(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27U)) * 0x94d049bb133111eb;
  return value ^ (value >> 31U);
}

}  // namespace

Flight::Flight(const Request& posted) : request(posted) {
  if (request.inlined()) {
    for (const ibv_sge& element : posted.elements) {
      const auto* bytes = reinterpret_cast<const std::byte*>(element.addr);
      data.insert(data.end(), bytes, bytes + element.length);
    }
    elements.assign(1, {reinterpret_cast<std::uint64_t>(data.data()),
                        static_cast<std::uint32_t>(data.size()), 0});
  } else {
    elements.assign(posted.elements.begin(), posted.elements.end());
  }
  request.elements = elements;
}

void Flight::carry(std::vector<std::byte> payload) {
  data = std::move(payload);
  elements.assign(1, {reinterpret_cast<std::uint64_t>(data.data()),
                      static_cast<std::uint32_t>(data.size()), 0});
  request.elements = elements;
  request.flags = (request.flags | IBV_SEND_INLINE) & ~static_cast<unsigned>(IBV_SEND_SIGNALED);
}

std::uint64_t latency_of(const SharedState& shared, Route route) {
  const std::uint64_t here = shared.ports[route.from].behaviour.latency_ns;
  return route.to == 0 ? here : std::max(here, shared.ports[route.to].behaviour.latency_ns);
}

Passage pass(SharedState& shared, Route route, std::uint64_t begin_ns, std::uint64_t bytes) {
  PortRecord& from = shared.ports[route.from];
  const std::uint64_t leaving = duration_ns(bytes, from.behaviour);
  const std::uint64_t latency = latency_of(shared, route);
  Passage passage{};
  passage.left_ns = reserve(from.egress_free_ns, begin_ns, leaving);
  passage.arrives_ns = passage.left_ns + latency;
  if (route.to == 0) return passage;
  // A message begins to come in while it still goes out.
  PortRecord& to = shared.ports[route.to];
  const std::uint64_t first = passage.left_ns - leaving + latency;
  const std::uint64_t in = reserve(to.ingress_free_ns, first, duration_ns(bytes, to.behaviour));
  passage.arrives_ns = std::max(passage.arrives_ns, in);
  return passage;
}

std::uint64_t by_chance(const Behaviour& behaviour, const QpRecord& qp, std::uint64_t index,
                        Chance purpose, std::uint64_t most) {
  if (most == 0) return 0;
  const std::uint64_t queue = mix(behaviour.seed) ^ qp.qpn.load(std::memory_order_relaxed);
  return mix(mix(mix(queue) ^ index) ^ static_cast<std::uint64_t>(purpose)) % (most + 1);
}

}  // namespace hbmwire::emulation::nic
