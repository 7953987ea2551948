// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "hbmwire/fd.hpp"
#include "hbmwire/memory_key.hpp"

#include "ends.hpp"

namespace hbmwire::test {

/// A peer in a process of its own: a listener, whose host memory "target" (kBytes of zeros, all
/// access) is advertised. It accepts whoever connects, and makes progress all the time unless it is
/// told otherwise. Make it before the test opens a NIC: a child by fork(2) has no use of those.
class PeerProcess {
 public:
  static constexpr std::uint64_t kBytes = 1 << 20;

  /// The parts of its process that a test's function may use.
  struct Inside {
    Worker& worker;
    Listener& listener;
    Memory& memory;
    std::vector<Endpoint>& endpoints;
    const std::vector<std::string>& log;  // all lines
  };

  struct Options {
    std::uint16_t port = 0;
    std::chrono::nanoseconds peer_timeout = 2s;  ///< its own
    MemoryType type = MemoryType::host;
    std::string nic = {};  ///< of a number of them
    PathPolicy paths = {};
    bool busy = false;   ///< makes no progress once a peer has connected and asked for "target"
    bool forks = false;  ///< a child keeps the first connection's socket as long as this lives
    bool packs = false;  ///< key()
    bool lent = false;   ///< "target" is memory of the application's, and may be taken away
    MemoryKeyOptions key = {};  ///< of "target"
    /// In its process, when call() says so.
    std::function<std::uint64_t(Inside&, std::int64_t)> does = {};
  };

  PeerProcess() : PeerProcess(Options{}) {}

  explicit PeerProcess(const Options& options);
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;
  ~PeerProcess();

  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }

  /// The packed key of "target".
  [[nodiscard]] const std::vector<std::byte>& key() const noexcept { return key_; }

  [[nodiscard]] std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  /// Returns when it is stopped, between two calls of the library: its emulated NIC answers.
  void stop() const;

  /// As stop(), wherever it is: within a request its NIC may not answer (emulation/docs/adr/0011).
  void stop_anywhere() const;

  void go_on() const;
  void kill();

  /// Destroys its endpoints, whatever is under way, and before anything else if it is stopped.
  void drop_endpoints() const { static_cast<void>(tell('x')); }

  /// Unmaps "target", which was lent.
  void take_target_away() const { static_cast<void>(tell('g')); }

  /// The result of Options::does(argument).
  [[nodiscard]] std::uint64_t call(std::int64_t argument = 0) const;

  /// How many bytes of "target" are not zero, by its own CPU.
  [[nodiscard]] std::uint64_t changed_bytes() const;

  /// How often it has shared host memory of this length mapped, but for what it has made itself.
  [[nodiscard]] std::size_t mappings_of(std::uint64_t size_bytes) const;

 private:
  [[nodiscard]] std::uint64_t tell(char command) const;
  [[nodiscard]] std::uint64_t answer() const;
  void wait_until_stopped() const;

  pid_t process_ = -1;
  std::uint16_t port_ = 0;
  std::vector<std::byte> key_;
  Fd commands_;
};

}  // namespace hbmwire::test
