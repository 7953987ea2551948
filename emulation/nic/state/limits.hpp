// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace hbmwire::emulation::nic {

// What the emulated NIC can hold; query_device reports these, and creation fails beyond them.
inline constexpr std::uint32_t kMaxProcesses = 512;
inline constexpr std::uint32_t kMaxQps = 65536;
inline constexpr std::uint32_t kMaxCqs = 65536;
inline constexpr std::uint32_t kMaxSrqs = 65536;
inline constexpr std::uint32_t kMaxXrcds = 1024;
inline constexpr std::uint32_t kMaxXrcHandles = 65536;
inline constexpr std::uint32_t kMaxMrs = 262144;
inline constexpr std::uint32_t kMaxPds = 65536;  // of a process, as kMaxAhs
inline constexpr std::uint32_t kMaxAhs = 1U << 20U;
inline constexpr std::uint32_t kMaxMws = 65536;
inline constexpr std::uint32_t kMaxMulticastAttachments = 4096;
inline constexpr std::uint32_t kMaxCqe = 1U << 20U;  // libfabric's ofi_rxm asks for more than 65536
inline constexpr std::uint32_t kMaxWr = 16384;
inline constexpr std::uint32_t kMaxSge = 16;
inline constexpr std::uint32_t kMaxInlineBytes = 1024;
inline constexpr std::uint32_t kMaxReadAtomic = 16;
inline constexpr std::uint32_t kScatteredBytes = 32;  // of a message in an entry of 64, as mlx5
inline constexpr std::uint32_t kMaxScattered = 16384;
inline constexpr std::uint64_t kMaxMtuBytes = 4096;
inline constexpr std::uint64_t kMaxMessageBytes = 1ULL << 31U;  // InfiniBand's limit of a message
inline constexpr std::uint32_t kGidTableLength = 32;            // used or not
inline constexpr std::uint32_t kMaxNicPorts = 2;
inline constexpr std::uint32_t kMaxContexts = 8192;  // devices that are open, in all processes
/// Ports of all NICs of a fabric. A port's number among them is in its sysfs file fabric_port,
/// from 1.
inline constexpr std::uint32_t kMaxFabricPorts = 8192;
inline constexpr std::uint64_t kPageBytes = 4096;

}  // namespace hbmwire::emulation::nic
