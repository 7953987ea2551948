// SPDX-License-Identifier: MIT
//
// Functions that libhl-thunk.so exports in addition to the vendor's interface: hooks for tests, and
// functions that libSynapse.so calls.
#pragma once

#include <cstdint>

#pragma GCC visibility push(default)
extern "C" {

/// Makes the n-th call from now (0: the next) of either library fail with `error_number`, in that
/// function's own convention. A negative n switches this off. Returns the number of calls since
/// this function was last called.
long hbmwire_gaudi_fail_nth_call(long n, int error_number);

/// The number of objects of a kind ("allocation", "mapping" of HBM, "export", "host_mapping") that
/// the card has now, over all processes that share it. 0 for an unknown card or kind.
unsigned long hbmwire_gaudi_live_objects(unsigned card, const char* kind);

/// Called by libSynapse.so to count a call. Returns 0, or the errno that the call must fail with.
int hbmwire_gaudi_fault(const char* call);

struct hbmwire_gaudi_backing_range {
  char path[512];              ///< the card's backing file
  char posted_path[512];       ///< the path of its PostedWrites; empty if it has none
  std::uint64_t offset_bytes;  ///< of the device address in the backing file
  std::uint64_t length_bytes;  ///< from the device address to the end of the mapping
};

/// Called by libSynapse.so, whose copies stand in for the DMA engine: finds the memory that is
/// mapped at the device address. Returns 0 or -errno.
int hbmwire_gaudi_backing(int fd, std::uint64_t device_address, hbmwire_gaudi_backing_range* range);
}
#pragma GCC visibility pop
