// SPDX-License-Identifier: MIT
#include "emulation/nic/state/port_files.hpp"

#include <utility>

#include "emulation/nic/state/counter_files.hpp"
#include "emulation/nic/state/shared_state.hpp"

namespace hbmwire::emulation::nic {

bool PortFiles::enter(std::uint32_t port) {
  const std::lock_guard guard(mutex_);
  if (noted_[port].exchange(true)) return false;
  ports_.push_back(port);
  return due_ns_ == 0 && !std::exchange(woken_, true);
}

std::vector<std::uint32_t> PortFiles::take() {
  for (const std::uint32_t port : ports_) noted_[port].store(false);
  return std::exchange(ports_, {});
}

/// Writes the files of these ports. A port whose files cannot be written now is noted again, for
/// the next call.
void PortFiles::publish(SharedState& shared, const std::filesystem::path& fabric,
                        const std::vector<std::uint32_t>& ports) {
  for (const std::uint32_t port : ports) {
    if (!publish_counters(fabric, shared.ports[port])) enter(port);
  }
}

std::uint64_t PortFiles::progress(SharedState& shared, const std::filesystem::path& fabric,
                                  std::uint64_t now, const Collect& collect) {
  constexpr std::uint64_t kPeriodNs = 50'000'000;  // how long files may lag behind counts
  const std::lock_guard writing(writing_);
  {
    const std::lock_guard guard(mutex_);
    woken_ = false;
    if (due_ns_ == 0 && (some_left_ || !ports_.empty())) due_ns_ = now + kPeriodNs;
    if (due_ns_ == 0 || now < due_ns_) return due_ns_;
  }
  const bool some_left = collect();
  std::vector<std::uint32_t> ports;
  std::uint64_t due = 0;
  {
    const std::lock_guard guard(mutex_);
    ports = take();
    // Under steady traffic the helper returns by itself and needs no wake-up.
    some_left_ = some_left;
    due = due_ns_ = ports.empty() && !some_left ? 0 : now + kPeriodNs;
  }
  publish(shared, fabric, ports);
  return due;
}

void PortFiles::write_all(SharedState& shared, const std::filesystem::path& fabric,
                          const Collect& collect) {
  const std::lock_guard writing(writing_);
  const bool some_left = collect();
  std::vector<std::uint32_t> ports;
  {
    const std::lock_guard guard(mutex_);
    ports = take();
    some_left_ = some_left;  // the helper thread was woken for it, or is going to return
  }
  publish(shared, fabric, ports);
}

}  // namespace hbmwire::emulation::nic
