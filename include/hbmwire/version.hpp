// SPDX-License-Identifier: MIT
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "hbmwire/export.hpp"

/// Version::major of these headers, for the preprocessor.
#define HBMWIRE_VERSION_MAJOR 0
/// Version::minor of these headers, for the preprocessor.
#define HBMWIRE_VERSION_MINOR 1
/// Version::patch of these headers, for the preprocessor.
#define HBMWIRE_VERSION_PATCH 1

namespace hbmwire {

/// A version of hbmwire: 0.1.0 is {0, 1, 0}. An earlier version is less than a later one.
/// docs/versions.md says what a version promises.
struct Version {
  int major = 0;
  int minor = 0;
  int patch = 0;

  auto operator<=>(const Version&) const = default;
};

/// The version that a program was compiled with.
inline constexpr Version kHeaderVersion{HBMWIRE_VERSION_MAJOR, HBMWIRE_VERSION_MINOR,
                                        HBMWIRE_VERSION_PATCH};

/// The version of the running library. Its patch level may be newer than that of kHeaderVersion.
[[nodiscard]] HBMWIRE_API Version version() noexcept;

/// "0.1.0". Throws std::bad_alloc.
[[nodiscard]] HBMWIRE_API std::string to_string(const Version& version);

/// The versions of formats that the library shares with other processes. Each has a number of its
/// own, which changes only when the bytes do. Two sides with different numbers refuse each other
/// with Errc::protocol, and the Error names both numbers (NumberKind::protocol_versions).
struct ProtocolVersions {
  std::uint16_t endpoint = 0;    ///< endpoints and invitations, docs/endpoint-protocol.md
  std::uint16_t memory_key = 0;  ///< memory keys, docs/memory-keys.md
  std::uint16_t attach = 0;      ///< attaching another process's memory, docs/attach.md

  bool operator==(const ProtocolVersions&) const = default;
};

/// The protocol versions of the running library.
[[nodiscard]] HBMWIRE_API ProtocolVersions protocol_versions() noexcept;

}  // namespace hbmwire
