// SPDX-License-Identifier: MIT
//
// SynapseAI: streams, events and DMA jobs. A job's addresses are checked when it is posted, and
// errors are returned then. If memory is freed or unmapped afterwards, the stream fails when it
// runs the job.
#include <cstdio>
#include <cstring>
#include <vector>

#include "emulation/gaudi/synapse/runtime.hpp"

using namespace hbmwire::emulation::gaudi;

namespace {

// Runs `body(stream)`. An unknown handle is refused.
template <typename Body>
synStatus stream_entry_point(const char* call, synStreamHandle handle, Body body) {
  return device_entry_point(call, [&](Runtime& runtime, const auto&) {
    const std::shared_ptr<Stream> stream = runtime.streams().find(handle);
    return stream ? body(stream) : synInvalidArgument;
  });
}

template <typename Body>
synStatus event_entry_point(const char* call, synEventHandle handle, Body body) {
  return device_entry_point(call, [&](Runtime& runtime, const auto&) {
    const std::shared_ptr<Event> event = runtime.events().find(handle);
    return event ? body(runtime, event) : synInvalidEventHandle;
  });
}

// The job keeps the device alive: it ends before the device's memory is released.
template <typename Request>
void post(Stream& stream, const std::shared_ptr<Device>& device, const Request& request) {
  stream.post([device, request] { return device->run(request); });
}

synStatus fill(const char* call, synStreamHandle handle, const FillRequest& request) {
  return device_entry_point(call, [&](Runtime& runtime, const auto& device) {
    const std::shared_ptr<Stream> stream = runtime.streams().find(handle);
    if (!stream || !device->accepts(request)) return synInvalidArgument;
    post(*stream, device, request);
    return synSuccess;
  });
}

// Posts all copies or none.
synStatus copy(const char* call, synStreamHandle handle, const std::vector<CopyRequest>& requests) {
  return device_entry_point(call, [&](Runtime& runtime, const auto& device) {
    const std::shared_ptr<Stream> stream = runtime.streams().find(handle);
    if (!stream) return synInvalidArgument;
    for (const auto& request : requests) {
      const bool known =
          request.direction >= HOST_TO_DRAM && request.direction < DIRECTION_ENUM_MAX;
      if (!known || !device->accepts(request)) return synInvalidArgument;
    }
    for (const auto& request : requests) post(*stream, device, request);
    return synSuccess;
  });
}

}  // namespace

synStatus synStreamCreateGeneric(synStreamHandle* pStreamHandle, const synDeviceId /*deviceId*/,
                                 const uint32_t /*flags*/) {
  return device_entry_point("synStreamCreateGeneric", [&](Runtime& runtime, const auto& device) {
    if (pStreamHandle == nullptr) return synInvalidArgument;
    *pStreamHandle = runtime.streams().add(std::make_shared<Stream>(device->delay_us()));
    return synSuccess;
  });
}

synStatus synStreamDestroy(const synStreamHandle streamHandle) {
  if (streamHandle == nullptr) return injected_status("synStreamDestroy");
  return device_entry_point("synStreamDestroy", [&](Runtime& runtime, const auto&) {
    const std::shared_ptr<Stream> stream = runtime.streams().find(streamHandle);
    if (!stream) return synInvalidArgument;
    if (!stream->progress()->idle()) return synBusy;
    runtime.streams().remove(streamHandle);
    return synSuccess;
  });
}

synStatus synStreamSynchronize(const synStreamHandle streamHandle) {
  return stream_entry_point("synStreamSynchronize", streamHandle, [](const auto& stream) {
    stream->progress()->wait(stream->progress()->posted());
    return static_cast<synStatus>(stream->progress()->status());
  });
}

synStatus synStreamQuery(const synStreamHandle streamHandle) {
  return stream_entry_point("synStreamQuery", streamHandle, [](const auto& stream) {
    if (!stream->progress()->idle()) return synBusy;
    return static_cast<synStatus>(stream->progress()->status());
  });
}

synStatus synStreamWaitEvent(const synStreamHandle streamHandle, synEventHandle eventHandle,
                             const uint32_t flags) {
  return event_entry_point(
      "synStreamWaitEvent", eventHandle, [&](Runtime& runtime, const auto& event) {
        const std::shared_ptr<Stream> stream = runtime.streams().find(streamHandle);
        if (!stream || flags != 0) return synInvalidArgument;
        const Event captured = *event;
        // A stream's own jobs run in order anyway, and a wait for itself would never end.
        if (!captured.progress || captured.progress == stream->progress()) return synSuccess;
        stream->post([captured] {
          captured.progress->wait(captured.job);
          return synSuccess;
        });
        return synSuccess;
      });
}

synStatus synEventCreate(synEventHandle* pEventHandler, const synDeviceId /*deviceId*/,
                         const uint32_t /*flags*/) {
  return device_entry_point("synEventCreate", [&](Runtime& runtime, const auto&) {
    if (pEventHandler == nullptr) return synInvalidArgument;
    *pEventHandler = runtime.events().add(std::make_shared<Event>());
    return synSuccess;
  });
}

synStatus synEventDestroy(synEventHandle eventHandle) {
  return event_entry_point("synEventDestroy", eventHandle, [&](Runtime& runtime, const auto&) {
    runtime.events().remove(eventHandle);
    return synSuccess;
  });
}

// As in the vendor's library, two threads must not record the same event at once.
synStatus synEventRecord(synEventHandle eventHandle, const synStreamHandle streamHandle) {
  return event_entry_point("synEventRecord", eventHandle, [&](Runtime& runtime, const auto& event) {
    const std::shared_ptr<Stream> stream = runtime.streams().find(streamHandle);
    if (!stream) return synInvalidArgument;
    *event = {.progress = stream->progress(), .job = stream->progress()->posted()};
    return synSuccess;
  });
}

synStatus synEventQuery(const synEventHandle eventHandle) {
  return event_entry_point("synEventQuery", eventHandle, [](Runtime&, const auto& event) {
    return !event->progress || event->progress->done(event->job) ? synSuccess : synBusy;
  });
}

synStatus synEventSynchronize(const synEventHandle eventHandle) {
  return event_entry_point("synEventSynchronize", eventHandle, [](Runtime&, const auto& event) {
    if (!event->progress) return synSuccess;
    event->progress->wait(event->job);
    return static_cast<synStatus>(event->progress->status());
  });
}

synStatus synMemCopyAsync(const synStreamHandle streamHandle, const uint64_t src,
                          const uint64_t size, const uint64_t dst, const synDmaDir direction) {
  return copy("synMemCopyAsync", streamHandle,
              {{.source = src, .bytes = size, .destination = dst, .direction = direction}});
}

synStatus synMemCopyAsyncMultiple(const synStreamHandle streamHandle, const uint64_t* src,
                                  const uint64_t* size, const uint64_t* dst,
                                  const synDmaDir direction, const uint64_t numCopies) {
  if (src == nullptr || size == nullptr || dst == nullptr) return synInvalidArgument;
  std::vector<CopyRequest> requests;
  for (std::uint64_t i = 0; i < numCopies; ++i) {
    requests.push_back(
        {.source = src[i], .bytes = size[i], .destination = dst[i], .direction = direction});
  }
  return copy("synMemCopyAsyncMultiple", streamHandle, requests);
}

synStatus synMemsetD8Async(uint64_t pDeviceMem, const unsigned char value,
                           const size_t numOfElements, const synStreamHandle streamHandle) {
  return fill(
      "synMemsetD8Async", streamHandle,
      {.destination = pDeviceMem, .value = value, .element_bytes = 1, .elements = numOfElements});
}

synStatus synMemsetD16Async(uint64_t pDeviceMem, const uint16_t value, const size_t numOfElements,
                            const synStreamHandle streamHandle) {
  return fill(
      "synMemsetD16Async", streamHandle,
      {.destination = pDeviceMem, .value = value, .element_bytes = 2, .elements = numOfElements});
}

synStatus synMemsetD32Async(uint64_t pDeviceMem, const uint32_t value, const size_t numOfElements,
                            const synStreamHandle streamHandle) {
  return fill(
      "synMemsetD32Async", streamHandle,
      {.destination = pDeviceMem, .value = value, .element_bytes = 4, .elements = numOfElements});
}

synStatus synStatusGetBriefDescription(synStatus status, char* statusDescription, size_t len) {
  if (statusDescription == nullptr || len == 0) return synInvalidArgument;
  const char* text = "Status not described by the emulation";
  switch (status) {
    case synSuccess:
      text = "Success";
      break;
    case synInvalidArgument:
      text = "Invalid argument";
      break;
    case synOutOfHostMemory:
      text = "Out of host memory";
      break;
    case synOutOfDeviceMemory:
      text = "Out of device memory";
      break;
    case synNoDeviceFound:
      text = "No device found";
      break;
    case synDeviceAlreadyAcquired:
      text = "Device already acquired";
      break;
    case synBusy:
      text = "Busy";
      break;
    case synFail:
      text = "Generic failure";
      break;
    case synUninitialized:
      text = "Synapse was not initialized";
      break;
    default:
      break;
  }
  std::snprintf(statusDescription, len, "%s", text);
  return synSuccess;
}
