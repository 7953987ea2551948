// SPDX-License-Identifier: MIT
#include "emulation/cuda/streams.hpp"

#include <cstdlib>
#include <vector>

namespace hbmwire::emulation::cuda {
namespace {

QueueEvent last_of(const Stream& stream) {
  const auto& progress = stream.queue.progress();
  return {.progress = progress, .job = progress->posted()};
}

/// The jobs that must be done before a job of `stream`. The context's mutex is held.
std::vector<QueueEvent> turns_before(Context& context, const Stream& stream) {
  std::vector<QueueEvent> before;
  const bool is_default = &stream == context.default_stream.get();
  if (is_default) {
    for (const auto& [handle, other] : context.streams) {
      if (other->blocking) before.push_back(last_of(*other));
    }
  } else if (stream.blocking && context.default_stream) {
    before.push_back(last_of(*context.default_stream));
  }
  std::erase_if(before, [](const auto& event) { return event.progress->done(event.job); });
  return before;
}

}  // namespace

std::uint32_t delay_from_environment() {
  const char* const text = std::getenv("HBMWIRE_EMULATION_CUDA_DELAY_US");
  return text == nullptr ? 0 : static_cast<std::uint32_t>(std::strtoul(text, nullptr, 10));
}

std::shared_ptr<Stream> find_stream(Context& context, CUstream handle) {
  const std::lock_guard lock(context.mutex);
  if (is_default(handle)) {
    if (!context.default_stream)
      context.default_stream = std::make_shared<Stream>(delay_from_environment(), true);
    return context.default_stream;
  }
  const auto found = context.streams.find(handle);
  return found == context.streams.end() ? nullptr : found->second;
}

void post(Context& context, const std::shared_ptr<Stream>& stream, WorkQueue::Job job) {
  const std::lock_guard lock(context.mutex);
  auto before = turns_before(context, *stream);
  if (before.empty()) {
    stream->queue.post(std::move(job));
    return;
  }
  stream->queue.post([before = std::move(before), job = std::move(job)] {
    for (const auto& event : before) event.progress->wait(event.job);
    return job();
  });
}

CUresult wait_for(const Stream& stream) {
  const auto& progress = stream.queue.progress();
  progress->wait(progress->posted());
  return static_cast<CUresult>(progress->status());
}

void wait_for_all(Context& context) {
  std::vector<std::shared_ptr<Stream>> streams;
  {
    const std::lock_guard lock(context.mutex);
    for (const auto& [handle, stream] : context.streams) streams.push_back(stream);
    if (context.default_stream) streams.push_back(context.default_stream);
  }
  for (const auto& stream : streams) wait_for(*stream);
}

void wait_for_everything(Runtime& runtime) {
  for (const auto& [handle, context] : runtime.all_contexts()) wait_for_all(*context);
}

}  // namespace hbmwire::emulation::cuda
