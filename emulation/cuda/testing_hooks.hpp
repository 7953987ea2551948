// SPDX-License-Identifier: MIT
//
// What libcuda.so.1 exports besides the vendor's interface: hooks for tests.
#pragma once

#pragma GCC visibility push(default)
extern "C" {

/// The n-th call from now (0: the next) fails with the CUresult that `error_number` stands for; a
/// negative n switches this off. Calls that poll (cuStreamQuery, cuEventQuery) are not counted.
/// Returns how many calls were counted since the last such call.
long hbmwire_cuda_fail_nth_call(long n, int error_number);

/// How many objects of a kind this process has now on a device: "allocation", "host", "managed",
/// "mapping", "physical" (ranges of GPUs' memory), "export" (dma-bufs that are alive), "share"
/// (allocations with a handle for other processes), "ipc" (those of other processes that are open,
/// of this GPU, however often), "context", "stream"; and with device 0 "reservation",
/// "host_mapping", "event", "current" (contexts on the calling thread's stack).
unsigned long hbmwire_cuda_live_objects(unsigned device, const char* kind);

/// Switches a trait of HBMWIRE_EMULATION_CUDA. 0, or -1 for none of that name.
int hbmwire_cuda_set_trait(const char* name, int on);
}
#pragma GCC visibility pop
