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

/// The values of wire::Ready::step.
enum class Step : std::uint16_t {
  start = 1,         ///< receives are posted, and the queue pair is connected
  write_target = 2,  ///< the client's buffer waits for the server's RDMA writes
  read_source = 3,   ///< the server's buffer may be read
  alive = 0xffff,    ///< nothing new: this side is busy with its own memory, but alive
};

/// The work with one peer: its control channel and its RDMA connection, watched together. Every
/// wait ends at once if the peer gives up or disconnects, or on an interrupt, and after the
/// policy's patience if the peer does nothing. Not thread-safe.
class Session {
 public:
  struct Policy {
    std::chrono::seconds patience{30};
    int cancel_fd = -1;
    std::string peer_role;  ///< "server" or "client", for messages
  };

  Session(wire::ControlChannel channel, Policy policy);

  /// Changes the patience from now on: an unknown peer gets less of it than one that works.
  void set_patience(std::chrono::seconds patience) noexcept { policy_.patience = patience; }

  // --- control channel ---
  Outcome<void> send(const wire::Message& message);
  /// Tells the peer that this side has reached a step. expect_step() waits until the peer tells it.
  Outcome<void> announce(Step step);
  Outcome<void> expect_step(Step step);

  /// The next message, which must be of type T.
  template <class T>
  Outcome<T> expect() {
    HBMWIRE_TRY_ASSIGN(auto message, next_message());
    if (auto* wanted = std::get_if<T>(&message)) return std::move(*wanted);
    return out_of_turn(message, wire::Message(T{}));
  }

  /// To be called during long work of this side: sends the peer a sign of life now and then, and
  /// takes in its messages. Errors: an interrupt; the peer gave up, or disconnected.
  Outcome<void> tick();

  /// Whether a message from the peer is waiting to be received.
  [[nodiscard]] bool has_mail() const noexcept { return !inbox_.empty(); }

  /// Takes in messages that have arrived, without waiting. has_mail() then reports them.
  Outcome<void> look();

  /// Waits until the peer has sent something, and sends it signs of life meanwhile.
  Outcome<void> await_mail();

  /// Whether nothing has arrived from the peer within the policy's patience. A peer that uses
  /// tick() or await_mail() sends signs of life, so a silent one has gone.
  [[nodiscard]] bool is_silent() const noexcept {
    return Clock::now() - last_heard_ > policy_.patience;
  }

  [[nodiscard]] std::chrono::seconds patience() const noexcept { return policy_.patience; }

  [[nodiscard]] int control_fd() const noexcept { return channel_.fd(); }

  /// Tells the peer the reason why this side ends, if it still listens. Sends it only once.
  void give_up(const Failure& failure) noexcept;

  // --- RDMA connection ---
  /// Creates the queue pair, with room for `bytes` in each direction, and exchanges addresses with
  /// the peer, whose memory must be as large as ours. Afterwards receives may be posted, and
  /// connect() called.
  Outcome<void> trade_addresses(const Nic& nic, const Region& region, std::uint64_t bytes);
  Outcome<void> connect();

  [[nodiscard]] Connection& connection() noexcept { return *connection_; }

  [[nodiscard]] const std::string& peer() const noexcept { return channel_.peer(); }

  /// The peer's memory from `offset_bytes` on.
  [[nodiscard]] RemoteMemory remote(std::uint64_t offset_bytes) const noexcept;

  /// `bytes` cut into pieces that both NICs can carry in one message.
  [[nodiscard]] Pieces pieces(std::uint64_t bytes) const noexcept { return {bytes, piece_bytes_}; }

  /// Waits for `count` more completions of sends, writes or reads.
  Outcome<void> finish(Completion::Kind kind, std::uint64_t count);

  /// Whether one more completion of this kind has come, without waiting. If so, it is consumed.
  Outcome<bool> try_finish(Completion::Kind kind);

  /// The next message that arrived in a posted receive, in the order of arrival.
  Outcome<Completion> arrival();

  /// The time to wait from now on, and the descriptor that interrupts it.
  [[nodiscard]] Wait wait() const noexcept;

 private:
  using Clock = std::chrono::steady_clock;

  Outcome<wire::Message> next_message();            // from the inbox, else from the peer
  Outcome<std::optional<wire::Message>> receive();  // empty: it was only a sign of life
  Outcome<void> queue_message();                    // waits for one, and puts it into the inbox
  Outcome<void> take_completion();                  // waits for one, or for a message
  void sort_in(const Completion& done);             // into finished_ or arrivals_
  Failure explain(const Error& error);              // waits a moment for the peer's reason
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
  std::array<std::uint64_t, 3> finished_{};  // sends, writes, reads that were not waited for yet
  std::deque<Completion> arrivals_;
};

}  // namespace hbmwire::tools
