// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hbmwire/context.hpp"
#include "hbmwire/memory_domain.hpp"
#include "hbmwire/nic.hpp"
#include "hbmwire/region.hpp"

#include "tools/common/pattern.hpp"
#include "tools/doctor/pairs/plan.hpp"

namespace hbmwire::tools::doctor {

/// The access that a NIC needs to the memory of a pair.
inline constexpr Access kPairAccess =
    Access::local_write | Access::remote_write | Access::remote_read;

/// A memory, opened and allocated: one window to read from, and one to write to (kWindowBytes
/// each).
struct OpenMemory {
  Context context;
  std::shared_ptr<MemoryDomain> domain;
  Allocation allocation;
  std::vector<NicDevice> nics;  ///< all NICs of the machine, for rates and distances
};

[[nodiscard]] Result<OpenMemory> open_memory(const PlanMemory& memory);

/// The rate that link and PCIe allow between a NIC and a memory.
struct Possible {
  std::string distance = {};    ///< "PIX"; empty if one of the two is no PCI device
  double bytes_per_second = 0;  ///< 0 if unknown
  std::string limit = {};       ///< the part that sets the limit
};

/// `memcpy_bytes_per_second` as in Plan.
[[nodiscard]] Possible possible_between(const OpenMemory& memory, const Nic& nic,
                                        double memcpy_bytes_per_second);

/// The reason why the memory could not be registered for zero-copy writes and reads: the first
/// refusal.
[[nodiscard]] std::optional<PairError> refusal_of(const Region& region);

/// "verify: emu0: after the write, byte 100 of 8388608 is 0x4f and should be 0x4e; ...".
[[nodiscard]] PairError wrong_bytes(const std::string& by, const std::string& memory,
                                    const char* what, const Comparison& found);

}  // namespace hbmwire::tools::doctor
