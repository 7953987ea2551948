// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>

#include "emulation/tests/nic/endpoint.hpp"

// The messages between the exporter of a key and the attacker, a program of its own.
namespace hbmwire::test::attack {

inline constexpr std::size_t kMostBytes = 4096;
inline constexpr unsigned char kPoison = 0xee;

/// Exporter to attacker: do this with that key.
struct Order {
  enum class Kind : std::uint32_t {
    attack,  ///< what the key allows, and all that it does not
    use,     ///< what the key allows
    guess,   ///< remote keys that might be another's
    hammer,  ///< write all that the key allows, over and over, until it is refused
    dead,    ///< what it allowed once
    end,
  };
  Kind kind = Kind::end;
  std::uint32_t regions_own_key = 0;  ///< a good guess
  std::array<unsigned char, 1500> key{};
};

/// Attacker to exporter: an attempt takes a new connection, which the exporter answers with its
/// Address.
struct Knock {
  bool more = false;      ///< false: the order has been carried out
  std::uint32_t nic = 0;  ///< which one of the key's
  Address from;
};

/// Attacker to exporter: what it tried, and what came of it.
struct Attempt {
  std::array<char, 40> what{};
  bool allowed = false;  ///< by the key's own words
  bool write = false;
  bool atomic = false;
  std::uint64_t address = 0;
  std::uint32_t length = 0;
  std::uint32_t remote_key = 0;
  std::int32_t status = -1;                       ///< enum ibv_wc_status
  bool disclosed = false;                         ///< bytes came in
  std::array<unsigned char, kMostBytes> bytes{};  ///< what was sent, or came in
};

}  // namespace hbmwire::test::attack
