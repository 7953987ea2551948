// SPDX-License-Identifier: MIT
//
// What libhsa-runtime64.so.1 exports besides the vendor's interface: hooks for tests, and the seam
// to libamdhip64.so.
#pragma once

#pragma GCC visibility push(default)
extern "C" {

/// The n-th call from now (0: the next) of either library fails with `error_number`, in that
/// function's own convention; a negative n switches this off. Returns how many calls were counted
/// since the last such call.
long hbmwire_rocm_fail_nth_call(long n, int error_number);

/// How many objects of a kind this process has now: of a GPU ("allocation", "range" of its memory,
/// "export", "share": allocations with a handle for other processes, "ipc": what is attached by
/// such handles), or of any ("host_allocation", "lock", "signal"). 0 for an unknown GPU or kind.
unsigned long hbmwire_rocm_live_objects(unsigned gpu, const char* kind);

/// For libamdhip64.so: counts a call. 0, or the errno that it is to fail with.
int hbmwire_rocm_fault(const char* call);
}
#pragma GCC visibility pop
