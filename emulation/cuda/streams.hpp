// SPDX-License-Identifier: MIT
#pragma once

#include <bit>
#include <cstdint>
#include <memory>

#include "emulation/cuda/runtime.hpp"

namespace hbmwire::emulation::cuda {

/// The default one goes by two names: 0 and CU_STREAM_LEGACY, which is 1.
inline bool is_default(CUstream handle) { return std::bit_cast<std::uintptr_t>(handle) <= 1; }

/// The stream of a handle, null for the default one; null
/// pointer for a handle that is none of this context's.
std::shared_ptr<Stream> find_stream(Context& context, CUstream handle);

/// Posts a job in the order that streams promise: the default one and those that are blocking take
/// turns.
void post(Context& context, const std::shared_ptr<Stream>& stream, WorkQueue::Job job);

/// Waits for what has been posted to it so far.
CUresult wait_for(const Stream& stream);

/// The same of all streams.
void wait_for_all(Context& context);

/// And of all contexts: any of them may still use what is to be unmapped.
void wait_for_everything(Runtime& runtime);

/// How long each job is delayed, so that programs that forget to synchronise are found out:
/// HBMWIRE_EMULATION_CUDA_DELAY_US, as it is when a stream is made.
std::uint32_t delay_from_environment();

}  // namespace hbmwire::emulation::cuda
