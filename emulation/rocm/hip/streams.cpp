// SPDX-License-Identifier: MIT
#include "emulation/rocm/hip/streams.hpp"

#include <utility>
#include <vector>

namespace hbmwire::emulation::rocm {
namespace {

const std::shared_ptr<Stream>& null_stream(const HipRuntime& runtime, int device) {
  return runtime.devices()[static_cast<std::size_t>(device)].null_stream;
}

QueueEvent last_of(const Stream& stream) {
  const auto& progress = stream.queue.progress();
  return {.progress = progress, .job = progress->posted()};
}

/// The jobs that must be done before a job of `stream`. HipRuntime::posting is held, so that two
/// streams that take turns see each other's earlier jobs.
std::vector<QueueEvent> turns_before(HipRuntime& runtime, const Stream& stream) {
  std::vector<QueueEvent> before;
  const Stream& null = *null_stream(runtime, stream.device);
  if (&stream == &null) {
    for (const auto& [handle, other] : runtime.streams().all()) {
      if (other->blocking && other->device == stream.device) before.push_back(last_of(*other));
    }
  } else if (stream.blocking) {
    before.push_back(last_of(null));
  }
  std::erase_if(before, [](const auto& event) { return event.progress->done(event.job); });
  return before;
}

void wait(const std::vector<QueueEvent>& events) {
  for (const auto& event : events) event.progress->wait(event.job);
}

}  // namespace

std::shared_ptr<Stream> find_stream(HipRuntime& runtime, hipStream_t handle) {
  return handle == nullptr ? null_stream(runtime, current_device())
                           : runtime.streams().find(handle);
}

void post(HipRuntime& runtime, Stream& stream, WorkQueue::Job job) {
  const std::lock_guard lock(runtime.posting());
  auto before = turns_before(runtime, stream);
  if (before.empty()) {
    stream.queue.post(std::move(job));
    return;
  }
  stream.queue.post([before = std::move(before), job = std::move(job)] {
    wait(before);
    return job();
  });
}

void wait_for_turn(HipRuntime& runtime) {
  const Stream& null = *null_stream(runtime, current_device());
  std::vector<QueueEvent> before;
  {
    const std::lock_guard lock(runtime.posting());
    before = turns_before(runtime, null);
    before.push_back(last_of(null));
  }
  wait(before);
}

hipError_t wait_for(const Stream& stream) {
  const auto& progress = stream.queue.progress();
  progress->wait(progress->posted());
  return static_cast<hipError_t>(progress->status());
}

hipError_t wait_for_device(HipRuntime& runtime, int device) {
  hipError_t first = wait_for(*null_stream(runtime, device));
  for (const auto& [handle, stream] : runtime.streams().all()) {
    if (stream->device != device) continue;
    if (const hipError_t error = wait_for(*stream); first == hipSuccess) first = error;
  }
  return first;
}

}  // namespace hbmwire::emulation::rocm
