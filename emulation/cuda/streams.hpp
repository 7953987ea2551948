// SPDX-License-Identifier: MIT
#pragma once

#include <bit>
#include <cstdint>
#include <memory>

#include "emulation/cuda/runtime.hpp"

namespace hbmwire::emulation::cuda {

/// The default stream has two names: 0 and CU_STREAM_LEGACY, which is 1.
inline bool is_default(CUstream handle) { return std::bit_cast<std::uintptr_t>(handle) <= 1; }

/// The stream of a handle, or the context's default stream. Null for a handle that is not one of
/// this context's streams.
std::shared_ptr<Stream> find_stream(Context& context, CUstream handle);

/// Posts a job in the order that streams promise: the default stream and the blocking ones take
/// turns.
void post(Context& context, const std::shared_ptr<Stream>& stream, WorkQueue::Job job);

/// Waits for the jobs posted to the stream so far.
CUresult wait_for(const Stream& stream);

/// Waits for all streams of a context.
void wait_for_all(Context& context);

/// Waits for all contexts, because any of them may use memory that is to be unmapped.
void wait_for_everything(Runtime& runtime);

/// The delay of each job in us, so that programs that forget to synchronise are noticed. It is
/// HBMWIRE_EMULATION_CUDA_DELAY_US at the time when the stream is created.
std::uint32_t delay_from_environment();

}  // namespace hbmwire::emulation::cuda
