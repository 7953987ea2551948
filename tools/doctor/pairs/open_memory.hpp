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

/// The access of a NIC to the memory of a pair.
inline constexpr Access kPairAccess =
    Access::local_write | Access::remote_write | Access::remote_read;

/// A memory, opened and allocated: a window to read from, and one to write to (kWindowBytes each).
struct OpenMemory {
  Context context;
  std::shared_ptr<MemoryDomain> domain;
  Allocation allocation;
  std::vector<NicDevice> nics;  ///< of the machine, for rates and distances
};

[[nodiscard]] Result<OpenMemory> open_memory(const PlanMemory& memory);

/// The limit of link and PCIe between a NIC and a memory.
struct Possible {
  std::string distance = {};    ///< "PIX"; empty: not of two PCI devices
  double bytes_per_second = 0;  ///< 0: unknown
  std::string limit = {};       ///< what the limit is of
};

/// `memcpy_bytes_per_second`: Plan's.
[[nodiscard]] Possible possible_between(const OpenMemory& memory, const Nic& nic,
                                        double memcpy_bytes_per_second);

/// Why the memory could not be registered to be written and read without a copy; the first refusal.
[[nodiscard]] std::optional<PairError> refusal_of(const Region& region);

/// "verify: emu0: after the write, byte 100 of 8388608 is 0x4f and should be 0x4e; ...".
[[nodiscard]] PairError wrong_bytes(const std::string& by, const std::string& memory,
                                    const char* what, const Comparison& found);

}  // namespace hbmwire::tools::doctor
