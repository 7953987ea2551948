// SPDX-License-Identifier: MIT
//
// Functions that libhsa-runtime64.so.1 exports in addition to the vendor's interface: hooks for
// tests, and functions that libamdhip64.so calls.
#pragma once

#pragma GCC visibility push(default)
extern "C" {

/// Makes the n-th call from now (0: the next) of either library fail with `error_number`, in that
/// function's own convention. A negative n switches this off. Returns the number of calls since
/// this function was last called.
long hbmwire_rocm_fail_nth_call(long n, int error_number);

/// The number of objects of a kind that this process has now. For a GPU: "allocation", "range" (of
/// its memory), "export", "share" (allocations with a handle for other processes), "ipc" (memory
/// attached by such handles). For any: "host_allocation", "lock", "signal". 0 for an unknown GPU or
/// kind.
unsigned long hbmwire_rocm_live_objects(unsigned gpu, const char* kind);

/// Called by libamdhip64.so to count a call. Returns 0, or the errno that the call must fail with.
int hbmwire_rocm_fault(const char* call);
}
#pragma GCC visibility pop
