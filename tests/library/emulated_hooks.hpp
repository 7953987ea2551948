// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tests/support/open_descriptors.hpp"

// Control over the emulated hardware from inside the process: hooks that its libraries
// export ("Faults" in emulation/docs/gaudi.md and rocm.md).
namespace hbmwire::test {

/// Makes the n-th call (0 = the next) of the libraries of a vendor ("gaudi", ...), or of the NIC
/// plugin ("nic"), fail with `error_number`; a negative n switches it off. Returns how many calls
/// were counted since the last such call.
long fail_nth_call(std::string_view library, long n, int error_number);

/// Every call of libibverbs of that name ("ibv_create_qp", a literal) fails; null: none.
void fail_nic_calls(const char* call, int error_number);

/// From the n-th request on (0 = the next) that this process posts to a NIC, `count` are refused
/// with `error_number`, in the middle of a chain too; a count of 0 switches it off.
void refuse_requests(unsigned long long n, unsigned long long count, int error_number);

/// Objects of this process that the hardware still holds, as a text ("" when there are none).
std::string live_objects();

/// The NICs' alone. A card's can't be asked for while another process has the card.
std::string live_nic_objects();

/// How often the NICs of this process went without a lock that a stopped process has (ADR 0011):
/// what was to be destroyed then is left.
unsigned long long nic_locks_not_had();

/// This process' mappings of files: the hardware's are all of files, and an allocator's or a
/// sanitizer's none.
int file_mappings();

/// All that is mapped, and by how much it may grow without a leak: a sanitizer keeps what is freed
/// for a while.
std::uint64_t mapped_bytes();
std::uint64_t allocator_slack_bytes();

}  // namespace hbmwire::test
