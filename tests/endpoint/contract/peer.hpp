// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "hbmwire/fd.hpp"

#include "way.hpp"

namespace hbmwire::test {

/// The other end of a contract test: a listener with memory "target", which accepts every
/// connection and makes progress all the time, in a thread of this process or in a process of its
/// own. The device's own engine reads and writes its memory, so bytes from a NIC are seen only
/// after they were made visible.
class Peer {
 public:
  explicit Peer(const Way& way, std::uint64_t bytes);
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer();

  [[nodiscard]] std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  enum class Ask : std::uint8_t {
    fill,               ///< fills its memory with the pattern of a seed
    contents,           ///< returns the contents of its memory
    receive,            ///< receives a message of at most so many bytes into its memory; then
                        ///< returns the contents
    receive_immediate,  ///< receives an immediate for its memory; then returns the contents
    pause,              ///< makes no progress until go_on
    go_on,
    revoke,          ///< revokes the key of "target"
    drop_endpoints,  ///< destroys its ends, even with transfers in flight
  };

  struct Answer {
    std::uint64_t value = 0;  ///< for a receive: its length, or the immediate
    std::vector<std::byte> bytes;
    bool failed = false;
  };

  /// Sends a request, and calls `meanwhile` until the answer has arrived.
  Answer ask(Ask what, std::uint64_t number, const std::function<void()>& meanwhile) const;

  Answer ask(Ask what, std::uint64_t number = 0) const {
    return ask(what, number, [] {});
  }

  /// The two halves of ask().
  void tell(Ask what, std::uint64_t number = 0) const;
  [[nodiscard]] Answer hear(const std::function<void()>& meanwhile) const;

 private:
  Fd socket_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

}  // namespace hbmwire::test
