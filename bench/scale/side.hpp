// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/common/peer.hpp"

namespace hbmwire::bench {

/// One process that has many connections to another one, by one of the libraries that are compared.
/// All calls fail by exceptions.
class Side {
 public:
  Side() = default;
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;
  Side(Side&&) = delete;
  Side& operator=(Side&&) = delete;
  virtual ~Side() = default;

  /// One connection more, ready for puts.
  virtual void connect() = 0;

  /// A put of 8 bytes by the connection of this index, up to kInFlight under way.
  virtual void put(std::size_t connection) = 0;

  /// All puts are over.
  virtual void finish() = 0;

  /// One call of what makes progress.
  virtual void progress() = 0;

  /// The connection of this index, once each.
  virtual void close(std::size_t connection) = 0;

  static constexpr std::size_t kInFlight = 64;
};

/// The other process: it takes connections, and lets the first one begin by a word of its own.
class Server {
 public:
  Server() = default;
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  Server(Server&&) = delete;
  Server& operator=(Server&&) = delete;
  virtual ~Server() = default;

  /// Makes progress, and takes what connects. It is called again and again.
  virtual void progress() = 0;

  /// Connections that it has.
  [[nodiscard]] virtual std::size_t connections() const = 0;

  /// connections() of a library whose server is not told.
  static constexpr std::size_t kEach = ~std::size_t{0};
};

/// A library, by name, as both processes make it. `line`: to the other one's, until a word of
/// measure() goes by it.
struct Library {
  std::string name;
  std::function<std::unique_ptr<Server>(Line& line)> serve;
  std::function<std::unique_ptr<Side>(Line& line, std::size_t connections)> begin;
};

Library our_library();
Library raw_library();
Library ucx_library();

}  // namespace hbmwire::bench
