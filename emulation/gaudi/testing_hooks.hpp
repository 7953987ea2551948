// SPDX-License-Identifier: MIT
//
// What libhl-thunk.so exports besides the vendor's interface: hooks for tests, and the seam to
// libSynapse.so.
#pragma once

#include <cstdint>

#pragma GCC visibility push(default)
extern "C" {

/// The n-th call from now (0: the next) of either library fails with `error_number`, in that
/// function's own convention; a negative n switches this off. Returns how many calls were counted
/// since the last such call.
long hbmwire_gaudi_fail_nth_call(long n, int error_number);

/// How many objects of a kind ("allocation", "mapping" of HBM, "export", "host_mapping") the card
/// has now, over all processes that share it; 0 for an unknown card or kind.
unsigned long hbmwire_gaudi_live_objects(unsigned card, const char* kind);

/// For libSynapse.so: counts a call. 0, or the errno that it is to fail with.
int hbmwire_gaudi_fault(const char* call);

struct hbmwire_gaudi_backing_range {
  char path[512];              ///< the card's backing file
  char posted_path[512];       ///< its PostedWrites, empty when it has none
  std::uint64_t offset_bytes;  ///< of the address in it
  std::uint64_t length_bytes;  ///< from there to the end of the mapping
};

/// For libSynapse.so, whose copies stand in for the DMA engine: where the memory mapped at the
/// device address lies. 0 or -errno.
int hbmwire_gaudi_backing(int fd, std::uint64_t device_address, hbmwire_gaudi_backing_range* range);
}
#pragma GCC visibility pop
