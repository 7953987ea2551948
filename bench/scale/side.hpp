// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/common/peer.hpp"

namespace hbmwire::bench {

/// A process that has many connections to another one, by one of the compared libraries. All calls
/// fail with exceptions.
class Side {
 public:
  Side() = default;
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;
  Side(Side&&) = delete;
  Side& operator=(Side&&) = delete;
  virtual ~Side() = default;

  /// Makes one more connection, ready for puts.
  virtual void connect() = 0;

  /// Puts 8 bytes by the connection with this index, with up to kInFlight puts under way.
  virtual void put(std::size_t connection) = 0;

  /// Waits until all puts are over.
  virtual void finish() = 0;

  /// One call of the library's progress function.
  virtual void progress() = 0;

  /// Closes the connection with this index; called once for each.
  virtual void close(std::size_t connection) = 0;

  static constexpr std::size_t kInFlight = 64;
};

/// The other process. It takes connections. At its start it may send the facts that the first
/// process needs to connect.
class Server {
 public:
  Server() = default;
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  Server(Server&&) = delete;
  Server& operator=(Server&&) = delete;
  virtual ~Server() = default;

  /// Makes progress, and takes new connections. Called again and again.
  virtual void progress() = 0;

  /// The number of its connections.
  [[nodiscard]] virtual std::size_t connections() const = 0;

  /// The value of connections() for a library that tells its server of no connections: more than
  /// the number that measure() waits for.
  static constexpr std::size_t kEach = ~std::size_t{0};
};

/// A library, by name, and how both processes make it. `line` leads to the other process.
struct Library {
  std::string name;
  std::function<std::unique_ptr<Server>(Line& line)> serve;
  std::function<std::unique_ptr<Side>(Line& line, std::size_t connections)> begin;
};

Library our_library();
Library raw_library();
Library ucx_library();

}  // namespace hbmwire::bench
