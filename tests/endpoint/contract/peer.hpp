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

/// The other end of a contract test: a listener with memory "target", which accepts whoever
/// connects and makes progress all the time, in a thread of this process or in a process of its
/// own. Its memory is read and written by its device's own engine, so that bytes that a NIC has not
/// made visible are not seen.
class Peer {
 public:
  explicit Peer(const Way& way, std::uint64_t bytes);
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer();

  [[nodiscard]] std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  enum class Ask : std::uint8_t {
    fill,               ///< its memory with the pattern of a seed
    contents,           ///< of its memory
    receive,            ///< a message of so many bytes at most into its memory; then contents
    receive_immediate,  ///< an immediate for its memory; then contents
    pause,              ///< makes no progress until it is told to go on
    go_on,
    revoke,          ///< takes back the key of "target"
    drop_endpoints,  ///< destroys its ends, whatever is under way
  };

  struct Answer {
    std::uint64_t value = 0;  ///< of a receive: its length, or the immediate
    std::vector<std::byte> bytes;
    bool failed = false;
  };

  /// Asks, and calls `meanwhile` until the answer has come.
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
