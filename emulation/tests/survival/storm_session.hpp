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

/// Says what is wrong, and ends the worker: the supervisor counts it as a failure.
[[noreturn]] void give_up(const char* what, std::uint64_t detail = 0);

std::uint64_t clock_ns();

inline constexpr std::uint64_t kLongestNs = 30'000'000'000;

/// Calls until the result is not EBUSY or EAGAIN: somebody is stopped, and will go on.
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

/// One connection of a worker to another, from its making to its end.
class Session {
 public:
  enum class Kind : std::uint8_t { reliable, shared_receives, unreliable, datagrams };

  /// Throws when something can't be made now.
  Session(Kind kind, std::uint64_t id, Random& random, Board& board);

  [[nodiscard]] Address address() const { return endpoint_.address(); }

  [[nodiscard]] std::uint64_t id() const { return id_; }

  /// False: the move was refused, and the session is at its end.
  bool connect(const Address& peer, std::uint64_t peer_id);

  [[nodiscard]] bool connected() const { return peer_id_ != 0; }

  /// Posts and polls a little. False: the session is at its end.
  bool step();

  /// Moves to ERR, sees every request end, and destroys everything.
  void finish();

 private:
  struct Header {
    std::uint64_t session, sequence;
  };

  void post_receives();
  void post_something();
  void post_message();
  void post_write();
  void post_read();
  void post_atomic();
  void change_memory();
  void sleep_on_channel();
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
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
  std::uint64_t writes_ = 0;
  std::uint64_t added_ = 0;
  bool writing_ = false;
  bool adding_ = false;
  std::deque<std::uint64_t> posted_ns_;  // sends that have not completed, oldest first
  std::uint64_t receives_ = 0;           // posted and not completed
  std::deque<std::size_t> free_slots_;
  Mr extra_;
};

}  // namespace hbmwire::test
