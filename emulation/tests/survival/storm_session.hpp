// SPDX-License-Identifier: MIT
#pragma once

#include <cerrno>
#include <deque>
#include <memory>
#include <optional>

#include "emulation/tests/survival/bounded.hpp"
#include "emulation/tests/survival/seed.hpp"
#include "emulation/tests/survival/storm_board.hpp"

namespace hbmwire::test {

/// Reports an error and ends the worker. The supervisor counts it as a failure.
[[noreturn]] void give_up(const char* what, std::uint64_t detail = 0);

std::uint64_t clock_ns();

/// After this time without a result a worker gives up.
inline constexpr std::uint64_t kLongestNs = 30'000'000'000;

/// Repeats a call while it returns EBUSY or EAGAIN: then a stopped process is in the way, which
/// will continue.
template <typename Call>
int persist(const char* name, Call call) {
  const std::uint64_t start = clock_ns();
  int error = 0;
  while ((error = bounded(name, call)) == EBUSY || error == EAGAIN) {
    if (clock_ns() - start > kLongestNs) give_up(name, static_cast<std::uint64_t>(error));
    ::usleep(1000);
  }
  return error;
}

/// A connection of one worker to another, from its creation to its end.
class Session {
 public:
  enum class Kind : std::uint8_t { reliable, shared_receives, unreliable, datagrams };

  /// Throws if an object cannot be created now.
  Session(Kind kind, std::uint64_t id, Random& random, Board& board);

  [[nodiscard]] Address address() const { return endpoint_.address(); }

  [[nodiscard]] std::uint64_t id() const { return id_; }

  /// Returns false if the state change was refused: the session has to end.
  bool connect(const Address& peer, std::uint64_t peer_id);

  [[nodiscard]] bool connected() const { return peer_id_ != 0; }

  /// Posts and polls a little. Returns false if the session has to end.
  bool step();

  /// Moves to ERR, waits until every request has ended, and destroys everything.
  void finish();

 private:
  struct Header {
    std::uint64_t session, sequence;
  };

  void post_receives();
  void post_something();
  void post_message();
  void post_write();
  /// Reads back the bytes of the last WRITE.
  void post_read();
  void post_atomic();
  void change_memory();
  /// Waits for a completion event, for 2 ms at most.
  void sleep_on_channel();
  /// Notes the time of a request, whose post had this result.
  void note_posted(int error);
  void poll();
  void take_send(const ibv_wc& completion);
  void take_receive(const ibv_wc& completion);
  void check_message(std::size_t offset, std::uint32_t bytes);
  void drain_events();

  Kind kind_;
  std::uint64_t id_;
  Random& random_;
  Board& board_;
  Endpoint endpoint_;
  Address peer_{};
  std::uint64_t peer_id_ = 0;
  bool failed_ = false;
  unsigned steps_left_;
  std::uint64_t sent_ = 0;               // messages; also the next one's sequence number
  std::uint64_t received_ = 0;           // the sequence number that is expected next
  std::uint64_t writes_ = 0;             // WRITEs begun; a part of their pattern's seed
  std::uint64_t added_ = 0;              // the value of the peer's counter
  bool writing_ = false;                 // a WRITE, or the READ that checks it, is in flight
  bool adding_ = false;                  // an atomic is in flight
  std::deque<std::uint64_t> posted_ns_;  // the times of sends that have not completed, oldest first
  std::uint64_t receives_ = 0;           // posted but not completed
  std::deque<std::size_t> free_slots_;
  Mr extra_;
};

}  // namespace hbmwire::test
