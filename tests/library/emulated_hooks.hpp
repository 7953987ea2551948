// SPDX-License-Identifier: MIT
#pragma once

#include <string>

// What the emulated hardware lets a test do and see from inside the process (emulation/README.md).
namespace hbmwire::test {

/// Makes the n-th call (0 = the next) of the Gaudi libraries, or of the NIC plugin, fail with
/// `error_number`; a negative n switches it off. Returns how many calls were counted since the last
/// such call.
long fail_nth_gaudi_call(long n, int error_number);
long fail_nth_nic_call(long n, int error_number);

/// Objects of this process that the hardware still holds, as a text ("" when there are none).
std::string live_objects();

/// Open file descriptors of this process, and its mappings of files: the hardware's are all of
/// files, and an allocator's or a sanitizer's none.
int open_descriptors();
int file_mappings();

}  // namespace hbmwire::test
