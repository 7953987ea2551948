// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>

#include "emulation/tests/nic/endpoint.hpp"

// The messages between the exporter of a key and the attacker, which is a separate program.
namespace hbmwire::test::attack {

inline constexpr std::size_t kMostBytes = 4096;
inline constexpr unsigned char kPoison = 0xee;

/// Exporter to attacker: a task for this key.
struct Order {
  enum class Kind : std::uint32_t {
    attack,  ///< try what the key allows, and everything that it does not
    use,     ///< do what the key allows
    guess,   ///< try remote keys that might belong to others
    hammer,  ///< write everything that the key allows, repeatedly, until it is refused
    dead,    ///< try what the key allowed before it ended
    end,     ///< end the program
  };
  Kind kind = Kind::end;
  std::uint32_t regions_own_key = 0;  ///< a likely guess
  std::array<unsigned char, 1500> key{};
};

/// Attacker to exporter: each attempt needs a new connection. The exporter answers with its
/// Address.
struct Knock {
  bool more = false;      ///< false: the order has been executed
  std::uint32_t nic = 0;  ///< index of the NIC in the key
  Address from;
};

/// Attacker to exporter: an attempt, and its result.
struct Attempt {
  std::array<char, 40> what{};
  bool allowed = false;  ///< the key allows it
  bool write = false;
  bool atomic = false;
  std::uint64_t address = 0;
  std::uint32_t length = 0;
  std::uint32_t remote_key = 0;
  std::int32_t status = -1;                       ///< enum ibv_wc_status
  bool disclosed = false;                         ///< bytes were received
  std::array<unsigned char, kMostBytes> bytes{};  ///< the sent or received bytes
};

}  // namespace hbmwire::test::attack
