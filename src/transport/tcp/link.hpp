// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "hbmwire/fd.hpp"

#include "transport/lane.hpp"
#include "transport/tcp/completion_queue.hpp"
#include "transport/tcp/link_state.hpp"
#include "transport/tcp/numbered.hpp"
#include "transport/tcp/requester.hpp"
#include "transport/tcp/responder.hpp"
#include "transport/tcp/stream.hpp"
#include "transport/tcp/user.hpp"

namespace hbmwire::transport {

/// Both lanes of an endpoint over one TCP connection, or only its control lane. Requests are sent
/// as frames. This process executes the peer's requests whenever its worker makes progress.
///
/// Control messages go first. A failure is kept as fault(): the endpoint finds it when it looks,
/// not in the middle of a poll.
class TcpLink final : private FrameUser {
 public:
  using Clock = Stream::Clock;

  /// The number of requests and receives that a lane can hold. If `data_requests` is 0 there is no
  /// data lane, and the link makes progress only when its socket is ready.
  struct Depths {
    std::uint32_t data_requests = 0;
    std::uint32_t data_receives = 0;
    std::uint32_t control = 0;  // in each direction
  };

  static constexpr std::uint64_t kMaxMessage = 1ULL << 30U;

  /// `queue` and `user` must outlive it. May throw std::bad_alloc.
  TcpLink(TcpCompletionQueue& queue, TcpUser& user, const Depths& depths);
  TcpLink(const TcpLink&) = delete;
  TcpLink& operator=(const TcpLink&) = delete;
  ~TcpLink();

  /// Makes one of its two lanes. The `control` lane carries only the messages between the two ends
  /// of the library. A lane is usable as long as the link lives.
  [[nodiscard]] std::unique_ptr<Lane> make_lane(bool control);

  /// Call it after the handshake. Errors: Stage::connect.
  Result<void> start(Fd socket);

  /// Receives and executes what has come, and sends what waits. Does not block.
  void progress() noexcept;

  /// Lets the socket wake a sleeping thread, also when there is room to send if frames wait for
  /// that.
  void wake_by_socket() noexcept;

  /// Ends this end's stream, so that the peer notices the end even if no frame can be sent any
  /// more.
  void hang_up() noexcept;

  /// Makes the peer's machine send an acknowledgement.
  void ask_machine() noexcept;

  /// Whether the peer's machine has been silent for longer than `bound`.
  [[nodiscard]] bool is_silent(Clock::time_point now, std::chrono::nanoseconds bound) noexcept;

  /// The key by which a request names the peer's memory with this token.
  [[nodiscard]] std::uint32_t key_of(std::uint64_t token) { return requester_.key_of(token); }

  /// The reason why nothing is received any more; no value while the link works.
  [[nodiscard]] const std::optional<Error>& fault() const noexcept { return state_.fault; }

  // --- used by its lanes; send() sends what is posted

  int post(const Operation& operation, std::uint64_t id, bool signaled) noexcept {
    return requester_.post(operation, id, signaled);
  }

  int post(const Message& message, std::uint64_t id, bool control) noexcept;
  int post_receives(std::span<const Receive> receives, bool control, std::size_t& posted) noexcept;
  void send() noexcept;

  /// Stops all movement on that lane, and flushes its requests.
  void break_off(bool control) noexcept;

  /// Stops both lanes; nothing completes any more.
  void cut() noexcept;

 private:
  using Frame = wire::TcpFrame;

  /// A control message to send.
  struct Word {
    std::uint64_t id = 0;
    std::span<const std::byte> bytes;
  };

  bool next(OutFrame& frame) noexcept override;
  void sent(std::uint64_t mark) noexcept override;
  void unreadable(std::uint64_t mark) noexcept override;
  Place place(const Frame& frame, std::uint32_t offset,
              std::span<std::byte>& memory) noexcept override;
  void taken(const Frame& frame, std::uint32_t offset, std::uint32_t bytes) noexcept override;
  void unwritable(const Frame& frame) noexcept override;
  void arrived(const Frame& frame) noexcept override;

  /// Answers the peer's requests, until none can be answered now.
  void serve() noexcept;
  void flush_control() noexcept;

  /// Closes the connection.
  void shut() noexcept;

  std::optional<Stream> stream_;
  TcpLinkState state_;
  TcpRequester requester_;
  TcpResponder responder_;
  std::size_t completions_ = 0;  // places reserved in the queue
  Numbered<Word> words_;         // control messages
  std::uint32_t next_word_ = 0;  // the first one that is not completely taken to be sent
  Numbered<Receive> control_receives_;
  bool asks_machine_ = false;
  bool starved_ = false;  // a control message has come, but there is no receive for it
  bool carries_data_;
};

}  // namespace hbmwire::transport
