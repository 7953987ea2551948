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

/// A peer in a process of its own: a listener with memory "target" (kBytes of zeros, all access).
/// It accepts all connections, and makes progress all the time unless told otherwise.
/// Create it before the test opens a NIC, because a child by fork(2) cannot use one.
class PeerProcess {
 public:
  static constexpr std::uint64_t kBytes = 1 << 20;

  /// The objects of its process that a test's function may use.
  struct Inside {
    Worker& worker;
    Listener& listener;
    Memory& memory;
    std::vector<Endpoint>& endpoints;
    const std::vector<std::string>& log;  // all lines so far
  };

  struct Options {
    std::uint16_t port = 0;
    std::chrono::nanoseconds peer_timeout = 2s;  ///< its own timeout
    MemoryType type = MemoryType::host;
    std::string nic = {};  ///< one of its NICs; empty for the default
    PathPolicy paths = {};
    bool busy = false;   ///< makes no progress after a peer has connected and asked for "target"
    bool forks = false;  ///< a child keeps the first connection's socket while this object lives
    bool packs = false;  ///< makes key() available
    bool lent = false;   ///< the application owns "target", which take_target_away() may unmap
    MemoryKeyOptions key = {};  ///< options for the key of "target"
    /// Runs in its process when call() requests it.
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

  /// Stops it between two calls of the library, so that its emulated NIC still answers. Returns
  /// when it is stopped.
  void stop() const;

  /// Stops it anywhere. If that is within a request, its NIC may not answer
  /// (emulation/docs/adr/0011).
  void stop_anywhere() const;

  void go_on() const;
  void kill();

  /// Destroys its endpoints, even with transfers in flight. A stopped process goes on for this.
  void drop_endpoints() const { static_cast<void>(tell('x')); }

  /// Unmaps "target", which must be `lent`.
  void take_target_away() const { static_cast<void>(tell('g')); }

  /// The result of Options::does(argument).
  [[nodiscard]] std::uint64_t call(std::int64_t argument = 0) const;

  /// The number of bytes of "target" that are not zero, read by its own CPU.
  [[nodiscard]] std::uint64_t changed_bytes() const;

  /// The number of its mappings of shared host memory of this length, without memory that it
  /// allocated itself.
  [[nodiscard]] std::size_t mappings_of(std::uint64_t size_bytes) const;

 private:
  /// Sends a command, lets a stopped process go on, and returns the answer.
  [[nodiscard]] std::uint64_t tell(char command) const;
  [[nodiscard]] std::uint64_t answer() const;
  void wait_until_stopped() const;

  pid_t process_ = -1;
  std::uint16_t port_ = 0;
  std::vector<std::byte> key_;
  Fd commands_;
};

}  // namespace hbmwire::test
