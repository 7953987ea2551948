// SPDX-License-Identifier: MIT
//
// Streams and events.
#include "emulation/cuda/streams.hpp"

using namespace hbmwire::emulation::cuda;

namespace {

template <typename Body>
CUresult stream_entry_point(const char* call, CUstream handle, Body body,
                            CUresult (*injected)(const char*) = injected_result) noexcept {
  return context_entry_point(
      call,
      [&](Runtime& runtime, Context& context) {
        const auto stream = find_stream(context, handle);
        return stream ? body(runtime, context, stream) : CUDA_ERROR_INVALID_HANDLE;
      },
      injected);
}

template <typename Body>
CUresult event_entry_point(const char* call, CUevent handle, Body body,
                           CUresult (*injected)(const char*) = injected_result) noexcept {
  return entry_point(
      call,
      [&](Runtime& runtime) {
        const auto event = runtime.events().find(handle);
        return event ? body(*event) : CUDA_ERROR_INVALID_HANDLE;
      },
      injected);
}

}  // namespace

CUresult cuStreamCreate(CUstream* stream, unsigned int flags) {
  return context_entry_point("cuStreamCreate", [&](Runtime& runtime, Context& context) {
    if (stream == nullptr || (flags & ~unsigned{CU_STREAM_NON_BLOCKING}) != 0)
      return CUDA_ERROR_INVALID_VALUE;
    const bool blocking = (flags & CU_STREAM_NON_BLOCKING) == 0;
    auto made = std::make_shared<Stream>(delay_from_environment(), blocking);
    *stream = runtime.add_stream(context, std::move(made));
    return CUDA_SUCCESS;
  });
}

// There is one priority, as cuCtxGetStreamPriorityRange() says. Other values mean the nearest one.
CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned int flags, int /*priority*/) {
  return cuStreamCreate(stream, flags);
}

// Jobs that were posted to the stream are still done.
CUresult cuStreamDestroy_v2(CUstream stream) {
  return stream_entry_point("cuStreamDestroy_v2", stream,
                            [&](Runtime&, Context& context, const auto& found) {
                              if (is_default(stream)) return CUDA_ERROR_INVALID_HANDLE;
                              wait_for(*found);
                              const std::lock_guard lock(context.mutex);
                              context.streams.erase(stream);
                              return CUDA_SUCCESS;
                            });
}

CUresult cuStreamSynchronize(CUstream stream) {
  return stream_entry_point("cuStreamSynchronize", stream,
                            [](Runtime&, Context&, const auto& found) { return wait_for(*found); });
}

CUresult cuStreamQuery(CUstream stream) {
  return stream_entry_point(
      "cuStreamQuery", stream,
      [](Runtime&, Context&, const auto& found) {
        const auto& progress = found->queue.progress();
        return progress->idle() ? static_cast<CUresult>(progress->status()) : CUDA_ERROR_NOT_READY;
      },
      injected_poll);
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int /*flags*/) {
  return stream_entry_point(
      "cuStreamWaitEvent", stream, [&](Runtime& runtime, Context& context, const auto& found) {
        const auto recorded = runtime.events().find(event);
        if (!recorded) return CUDA_ERROR_INVALID_HANDLE;
        // A stream's own jobs run in order anyway, and a wait for itself would never end.
        if (!recorded->progress || recorded->progress == found->queue.progress())
          return CUDA_SUCCESS;
        post(context, found, [captured = *recorded] {
          captured.progress->wait(captured.job);
          return 0;
        });
        return CUDA_SUCCESS;
      });
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* userData) {
  return stream_entry_point("cuLaunchHostFunc", stream,
                            [&](Runtime&, Context& context, const auto& found) {
                              if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
                              post(context, found, [function, userData] {
                                function(userData);
                                return 0;
                              });
                              return CUDA_SUCCESS;
                            });
}

CUresult cuEventCreate(CUevent* event, unsigned int /*flags*/) {
  return context_entry_point("cuEventCreate", [&](Runtime& runtime, Context&) {
    if (event == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *event = runtime.events().add(std::make_shared<hbmwire::emulation::QueueEvent>());
    return CUDA_SUCCESS;
  });
}

CUresult cuEventDestroy_v2(CUevent event) {
  return entry_point("cuEventDestroy_v2", [&](Runtime& runtime) {
    return runtime.events().remove(event) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  });
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  return stream_entry_point("cuEventRecord", stream,
                            [&](Runtime& runtime, Context&, const auto& found) {
                              const auto recorded = runtime.events().find(event);
                              if (!recorded) return CUDA_ERROR_INVALID_HANDLE;
                              const auto& progress = found->queue.progress();
                              *recorded = {.progress = progress, .job = progress->posted()};
                              return CUDA_SUCCESS;
                            });
}

CUresult cuEventQuery(CUevent event) {
  return event_entry_point(
      "cuEventQuery", event,
      [](const auto& recorded) {
        if (!recorded.progress) return CUDA_SUCCESS;
        if (!recorded.progress->done(recorded.job)) return CUDA_ERROR_NOT_READY;
        return static_cast<CUresult>(recorded.progress->status());
      },
      injected_poll);
}

CUresult cuEventSynchronize(CUevent event) {
  return event_entry_point("cuEventSynchronize", event, [](const auto& recorded) {
    if (!recorded.progress) return CUDA_SUCCESS;
    recorded.progress->wait(recorded.job);
    return static_cast<CUresult>(recorded.progress->status());
  });
}
