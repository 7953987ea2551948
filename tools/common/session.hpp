// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "hbmwire/low_level/connection.hpp"
#include "hbmwire/nic.hpp"

#include "tools/common/failure.hpp"
#include "tools/common/pieces.hpp"
#include "tools/wire/control_channel.hpp"
#include "tools/wire/messages.hpp"

namespace hbmwire::tools {

/// The names of wire::Ready.
enum class Step : std::uint16_t {
  start = 1,         ///< receives are posted, the queue pair is connected
  write_target = 2,  ///< the client's buffer waits for the server's RDMA writes
  read_source = 3,   ///< the server's buffer may be read
  alive = 0xffff,    ///< nothing new: this side is busy with its own memory, not dead
};

/// The work with one peer: its control channel and its RDMA connection, watched together. Whatever
/// this side waits for, a peer that gives up or goes away ends the wait at once, an interrupt too,
/// and a peer that does nothing ends it after the policy's patience. One thread.
class Session {
 public:
  struct Policy {
    std::chrono::seconds patience{30};
    int cancel_fd = -1;
    std::string peer_role;  ///< "server" or "client", for sentences
  };

  Session(wire::ControlChannel channel, Policy policy);

  /// From now on: a stranger gets less patience than a peer at work.
  void set_patience(std::chrono::seconds patience) noexcept { policy_.patience = patience; }

  // --- control channel ---
  Outcome<void> send(const wire::Message& message);
  Outcome<void> announce(Step step);
  Outcome<void> expect_step(Step step);

  /// The next message, which must be a T.
  template <class T>
  Outcome<T> expect() {
    HBMWIRE_TRY_ASSIGN(auto message, next_message());
    if (auto* wanted = std::get_if<T>(&message)) return std::move(*wanted);
    return out_of_turn(message, wire::Message(T{}));
  }

  /// For long work of this side's own: tells the peer now and then that it goes on, and hears
  /// whether the peer does.
  Outcome<void> tick();

  /// Whether the peer has sent something that nobody has asked for yet.
  [[nodiscard]] bool has_mail() const noexcept { return !inbox_.empty(); }

  /// Takes in what has come, without waiting; has_mail() tells of it.
  Outcome<void> look();

  /// Until the peer has sent something, telling it all the while that this side lives.
  Outcome<void> await_mail();

  /// Whether nothing at all has come from the peer within the policy's patience: of one that
  /// tick()s, or await_mail()s, it has gone.
  [[nodiscard]] bool is_silent() const noexcept {
    return Clock::now() - last_heard_ > policy_.patience;
  }

  [[nodiscard]] std::chrono::seconds patience() const noexcept { return policy_.patience; }

  [[nodiscard]] int control_fd() const noexcept { return channel_.fd(); }

  /// Tells the peer why this side ends, as far as it still listens; once.
  void give_up(const Failure& failure) noexcept;

  // --- RDMA connection ---
  /// Creates the queue pair, of room for `bytes` in each direction, and trades addresses for the
  /// peer's, whose memory must be as large as ours. Then receives may be posted, and connect()
  /// called.
  Outcome<void> trade_addresses(const Nic& nic, const Region& region, std::uint64_t bytes);
  Outcome<void> connect();

  [[nodiscard]] Connection& connection() noexcept { return *connection_; }

  [[nodiscard]] const std::string& peer() const noexcept { return channel_.peer(); }

  /// The peer's memory from `offset_bytes` on.
  [[nodiscard]] RemoteMemory remote(std::uint64_t offset_bytes) const noexcept;

  /// `bytes` cut into what both NICs can carry in one message.
  [[nodiscard]] Pieces pieces(std::uint64_t bytes) const noexcept { return {bytes, piece_bytes_}; }

  /// Waits until `count` more sends, writes or reads are complete.
  Outcome<void> finish(Completion::Kind kind, std::uint64_t count);

  /// Whether one more of these is complete, without waiting; takes note of it when it is.
  Outcome<bool> try_finish(Completion::Kind kind);

  /// The next message that arrived in a posted receive, in the order of arrival.
  Outcome<Completion> arrival();

  /// How long to wait from now on, and what ends it.
  [[nodiscard]] Wait wait() const noexcept;

 private:
  using Clock = std::chrono::steady_clock;

  Outcome<wire::Message> next_message();
  Outcome<std::optional<wire::Message>> receive();  // nothing: it only was a sign of life
  Outcome<void> queue_message();
  Outcome<void> take_completion();
  void sort_in(const Completion& done);
  Failure explain(const Error& error);
  [[nodiscard]] bool is_readable(std::chrono::milliseconds within) const noexcept;
  tl::unexpected<Failure> out_of_turn(const wire::Message& got, const wire::Message& wanted) const;

  wire::ControlChannel channel_;
  Policy policy_;
  std::deque<wire::Message> inbox_;
  bool gave_up_ = false;
  Clock::time_point last_tick_ = Clock::now();
  Clock::time_point last_heard_ = Clock::now();
  std::optional<Connection> connection_;
  wire::Address remote_;
  std::uint64_t piece_bytes_ = 1;
  std::uint64_t depth_ = 0;
  std::array<std::uint64_t, 3> finished_{};  // sends, writes, reads that nobody has waited for yet
  std::deque<Completion> arrivals_;
};

}  // namespace hbmwire::tools
