// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

#include "emulation/rocm/hip/runtime.hpp"

namespace hbmwire::emulation::rocm {

/// The null stream is the current device's. Null for a handle that is no stream's.
std::shared_ptr<Stream> find_stream(HipRuntime& runtime, hipStream_t handle);

/// Posts a job in the order that streams promise: a device's null stream and its blocking ones take
/// turns.
void post(HipRuntime& runtime, Stream& stream, WorkQueue::Job job);

/// Waits until a call that does not return before it is done may begin: such calls take their turn
/// on the current device's null stream.
void wait_for_turn(HipRuntime& runtime);

/// Waits for what has been posted to it so far.
hipError_t wait_for(const Stream& stream);

/// The same of all streams of a device; the first error.
hipError_t wait_for_device(HipRuntime& runtime, int device);

}  // namespace hbmwire::emulation::rocm
