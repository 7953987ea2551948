// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

#include "emulation/rocm/hip/runtime.hpp"

namespace hbmwire::emulation::rocm {

/// The stream of a handle; the null stream is the current device's. Null if the handle is not a
/// stream's.
std::shared_ptr<Stream> find_stream(HipRuntime& runtime, hipStream_t handle);

/// Posts a job in the order that streams promise: a device's null stream and its blocking streams
/// take turns.
void post(HipRuntime& runtime, Stream& stream, WorkQueue::Job job);

/// Waits until a synchronous call may begin. Such calls take their turn on the current device's
/// null stream.
void wait_for_turn(HipRuntime& runtime);

/// Waits for the jobs posted to the stream so far.
hipError_t wait_for(const Stream& stream);

/// Waits for all streams of a device. Returns the first error.
hipError_t wait_for_device(HipRuntime& runtime, int device);

}  // namespace hbmwire::emulation::rocm
