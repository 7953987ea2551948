// SPDX-License-Identifier: MIT
//
// Functions that libcuda.so.1 exports in addition to the vendor's interface: hooks for tests.
#pragma once

#pragma GCC visibility push(default)
extern "C" {

/// Makes the n-th call from now (0: the next) fail with the CUresult for `error_number`. A negative
/// n switches this off. Calls that poll (cuStreamQuery, cuEventQuery) are not counted. Returns the
/// number of calls since this function was last called.
long hbmwire_cuda_fail_nth_call(long n, int error_number);

/// The number of objects of a kind that this process has now on a device: "allocation", "host",
/// "managed", "mapping", "physical" (ranges of GPU memory), "export" (living dma-bufs), "share"
/// (allocations with a handle for other processes), "ipc" (opened allocations of other processes,
/// on this GPU, each counted once), "context", "stream". With device 0 also "reservation",
/// "host_mapping", "event", "current" (contexts on the calling thread's stack).
unsigned long hbmwire_cuda_live_objects(unsigned device, const char* kind);

/// Switches a trait of HBMWIRE_EMULATION_CUDA on or off. Returns 0, or -1 for an unknown name.
int hbmwire_cuda_set_trait(const char* name, int on);
}
#pragma GCC visibility pop
