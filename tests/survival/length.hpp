// SPDX-License-Identifier: MIT
#pragma once

/// How much is done in the fast suite, and in the full one (label full).
namespace hbmwire::test {

#ifdef HBMWIRE_FULL
inline constexpr unsigned kKills = 1000;
#else
inline constexpr unsigned kKills = 40;
#endif

}  // namespace hbmwire::test
