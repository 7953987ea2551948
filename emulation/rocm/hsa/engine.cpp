// SPDX-License-Identifier: MIT
#include "emulation/rocm/hsa/engine.hpp"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "emulation/common/faults.hpp"

namespace hbmwire::emulation::rocm {
namespace {

using namespace std::chrono_literals;

constexpr int kDirections = 3;

std::uint32_t delay_from_environment() {
  const char* text = std::getenv("HBMWIRE_EMULATION_ROCM_DELAY_US");
  return text == nullptr ? 0 : static_cast<std::uint32_t>(std::strtoul(text, nullptr, 10));
}

}  // namespace

void move_bytes(const EngineView& to, const EngineView& from, std::uint64_t bytes) {
  if (to.memory == nullptr && from.memory == nullptr) {
    std::memmove(to.host, from.host, bytes);
  } else if (to.memory == nullptr) {
    from.memory->read(from.offset, to.host, bytes);
  } else if (from.memory == nullptr) {
    to.memory->write(to.offset, from.host, bytes);
  } else {
    to.memory->write_from(to.offset, *from.memory, from.offset, bytes);
  }
}

CopyEngines::CopyEngines(Allocations& allocations) : allocations_(allocations) {
  for (int i = 0; i < kDirections; ++i)
    queues_.push_back(std::make_unique<WorkQueue>(delay_from_environment()));
}

void CopyEngines::post(Direction direction, CopyJob job) {
  queues_.at(static_cast<std::size_t>(direction))->post([this, job = std::move(job)] {
    return run(job);
  });
}

bool CopyEngines::wait_for(const std::vector<std::shared_ptr<Signal>>& signals) const {
  for (const auto& signal : signals) {
    while (signal->wait(HSA_SIGNAL_CONDITION_EQ, 0, 10ms) != 0) {
      if (stopping_.load()) return false;
    }
  }
  return true;
}

// The fault plan's "sdma_copy" makes a copy fail after the call that started it has returned. The
// queue must go on, because the next copy is unrelated.
int CopyEngines::run(const CopyJob& job) {
  const bool copied = wait_for(job.after) && FaultPlan::of_this_process().fails("sdma_copy") == 0 &&
                      allocations_.with_views(job.to, job.from, job.bytes,
                                              [&](const EngineView& to, const EngineView& from) {
                                                move_bytes(to, from, job.bytes);
                                              });
  if (copied) {
    job.done->change([](hsa_signal_value_t value) { return value - 1; });
  } else {
    job.done->store(-1);
  }
  return 0;
}

}  // namespace hbmwire::emulation::rocm
