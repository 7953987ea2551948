// SPDX-License-Identifier: MIT
#include "emulation/nic/state/behaviour.hpp"

#include <fstream>

namespace hbmwire::emulation::nic {
namespace {

/// Visits every member with its key: one list for both writing and reading.
template <typename Subject, typename Visit>
void visit(Subject& behaviour, Visit each) {
  each("seed", behaviour.seed);
  each("async_ns", behaviour.async_ns);
  each("rate_bits_per_s", behaviour.rate_bits_per_s);
  each("latency_ns", behaviour.latency_ns);
  each("flush", behaviour.flush);
  each("scatter", behaviour.scatter);
  each("relaxed", behaviour.relaxed);
  each("dmabuf", behaviour.dmabuf);
  each("atomics", behaviour.atomics);
  each("last_wqe", behaviour.last_wqe);
  each("max_qp", behaviour.limits.qp);
  each("max_cq", behaviour.limits.cq);
  each("max_cqe", behaviour.limits.cqe);
  each("max_mr", behaviour.limits.mr);
  each("max_srq", behaviour.limits.srq);
}

}  // namespace

std::string to_text(const Behaviour& behaviour) {
  std::string text;
  visit(behaviour, [&](const char* key, std::uint64_t value) {
    text += std::string(key) + ' ' + std::to_string(value) + '\n';
  });
  return text;
}

Behaviour read_behaviour(const std::filesystem::path& file) {
  Behaviour behaviour;
  std::ifstream stream(file);
  std::string key;
  std::uint64_t value = 0;
  while (stream >> key >> value) {
    visit(behaviour, [&](const char* name, auto& member) {
      if (key == name) member = static_cast<std::remove_reference_t<decltype(member)>>(value);
    });
  }
  return behaviour;
}

}  // namespace hbmwire::emulation::nic
