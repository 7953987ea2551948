// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace hbmwire::emulation::nic {

// The capacity of the emulated NIC. ibv_query_device() reports it; creating more objects fails.
inline constexpr std::uint32_t kMaxProcesses = 512;
inline constexpr std::uint32_t kMaxQps = 65536;
inline constexpr std::uint32_t kMaxCqs = 65536;
inline constexpr std::uint32_t kMaxSrqs = 65536;
inline constexpr std::uint32_t kMaxXrcds = 1024;
inline constexpr std::uint32_t kMaxXrcHandles = 65536;
inline constexpr std::uint32_t kMaxMrs = 262144;
inline constexpr std::uint32_t kMaxPds = 65536;  // in a process, as kMaxAhs
inline constexpr std::uint32_t kMaxAhs = 1U << 20U;
inline constexpr std::uint32_t kMaxMws = 65536;
inline constexpr std::uint32_t kMaxMulticastAttachments = 4096;
inline constexpr std::uint32_t kMaxCqe = 1U << 20U;  // libfabric's ofi_rxm asks for more than 65536
inline constexpr std::uint32_t kMaxWr = 16384;
inline constexpr std::uint32_t kMaxSge = 16;
inline constexpr std::uint32_t kMaxInlineBytes = 1024;
inline constexpr std::uint32_t kMaxReadAtomic = 16;
inline constexpr std::uint32_t kScatteredBytes = 32;  // in an entry of 64 bytes, as in mlx5
inline constexpr std::uint32_t kMaxScattered = 16384;
inline constexpr std::uint64_t kMaxMtuBytes = 4096;
inline constexpr std::uint64_t kMaxMessageBytes = 1ULL << 31U;  // InfiniBand's limit for a message
inline constexpr std::uint32_t kGidTableLength = 32;            // entries, used or not
inline constexpr std::uint32_t kMaxNicPorts = 2;
inline constexpr std::uint32_t kMaxContexts = 8192;  // open devices, in all processes
/// The number of ports of all NICs of a fabric. The sysfs file fabric_port of a port holds its
/// number among them, counted from 1.
inline constexpr std::uint32_t kMaxFabricPorts = 8192;
inline constexpr std::uint64_t kPageBytes = 4096;

}  // namespace hbmwire::emulation::nic
