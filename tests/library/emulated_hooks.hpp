// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tests/support/open_descriptors.hpp"

// Controls the emulated hardware from inside the process, by hooks that its libraries export
// ("Faults" in emulation/docs/gaudi.md and rocm.md).
namespace hbmwire::test {

/// Makes the n-th call (0 = the next) of the libraries of a vendor ("gaudi", ...), or of the NIC
/// plugin ("nic"), fail with `error_number`. A negative n switches this off. Returns the number of
/// calls since the last use of this function.
long fail_nth_call(std::string_view library, long n, int error_number);

/// Makes every call of this function of libibverbs ("ibv_create_qp", a literal) fail; null switches
/// this off.
void fail_nic_calls(const char* call, int error_number);

/// Makes NICs refuse `count` requests of this process with `error_number`, from the n-th one on (0
/// = the next), even in the middle of a chain. A count of 0 switches this off.
void refuse_requests(unsigned long long n, unsigned long long count, int error_number);

/// The objects of this process that the hardware still holds, as text ("" if there are none).
std::string live_objects();

/// Only the objects of NICs. Those of a card cannot be listed while another process owns the card.
std::string live_nic_objects();

/// How often NICs of this process gave up on a lock that a stopped process holds (ADR 0011).
/// Objects that were to be destroyed then are left.
unsigned long long nic_locks_not_had();

/// This process' mappings of files. All mappings of the hardware are of files, and none of an
/// allocator's or a sanitizer's.
int file_mappings();

/// The mapped bytes, and the growth that is no leak: a sanitizer keeps freed memory for a while.
std::uint64_t mapped_bytes();
std::uint64_t allocator_slack_bytes();

}  // namespace hbmwire::test
