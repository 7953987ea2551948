// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

/// The amount of work in the fast suite and in the full one (label full).
namespace hbmwire::test {

#ifdef HBMWIRE_FULL
inline constexpr unsigned kKills = 1000;
inline constexpr unsigned kFuzzRounds = 150'000;
inline constexpr unsigned kSoakRounds = 20'000;
inline constexpr unsigned kCmSoakRounds = 3'000;
inline constexpr std::size_t kScaleProcesses = 64;
inline constexpr std::size_t kScaleQueuePairs = 64;   // of a process
inline constexpr std::size_t kScaleAllocations = 15;  // of a process: 960 in total
inline constexpr std::size_t kScaleRegions = 105;     // of an allocation: 100,800 in total
inline constexpr std::size_t kFabricProcesses = 512;  // as many as a fabric can have
#else
inline constexpr unsigned kKills = 40;
inline constexpr unsigned kFuzzRounds = 4'000;
inline constexpr unsigned kSoakRounds = 400;
inline constexpr unsigned kCmSoakRounds = 100;
inline constexpr std::size_t kScaleProcesses = 8;
inline constexpr std::size_t kScaleQueuePairs = 16;
inline constexpr std::size_t kScaleAllocations = 4;
inline constexpr std::size_t kScaleRegions = 100;
inline constexpr std::size_t kFabricProcesses = 24;
#endif

}  // namespace hbmwire::test
