// SPDX-License-Identifier: MIT
#include "hbmwire/worker.hpp"

#include "base/guarded.hpp"
#include "endpoint/endpoint_state.hpp"

namespace hbmwire {

Result<Worker> Worker::create(const Context& context, const WorkerOptions& options) {
  return guarded(Stage::open, [&]() -> Result<Worker> {
    HBMWIRE_TRY_ASSIGN(auto state, detail::WorkerState::create(context, options));
    return Worker(std::move(state));
  });
}

std::size_t Worker::progress() {
  const detail::WorkerLock lock(*state_);
  return state_->progress();
}

int Worker::fd() const noexcept { return state_->waiting.fd(); }

Result<bool> Worker::arm() {
  return guarded(Stage::complete, [&]() -> Result<bool> {
    const detail::WorkerLock lock(*state_);
    return state_->waiting.arm();
  });
}

std::chrono::milliseconds Worker::wake_after() const noexcept {
  const detail::WorkerLock lock(*state_);
  return state_->wake_after();
}

Result<void> Worker::wait(const Wait& wait) {
  return guarded(Stage::complete, [&]() -> Result<void> {
    const detail::WorkerLock lock(*state_);
    const std::uint64_t before = state_->event_count;
    return state_->drive(wait, [&] { return state_->event_count != before; });
  });
}

Result<Transfer> Worker::flush(const Slice& memory) {
  return guarded(Stage::post, [&]() -> Result<Transfer> {
    const detail::WorkerLock lock(*state_);
    return state_->flush(memory);
  });
}

const Context& Worker::context() const noexcept { return state_->context; }

}  // namespace hbmwire
