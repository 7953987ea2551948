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

/// Both lanes of an endpoint over one TCP connection, or its control lane alone: its requests go as
/// frames, and the frames of the peer's are carried out here, by this process, whenever its worker
/// makes progress.
///
/// Words between the ends go first. A failure here is a fault(): the endpoint is told when it
/// looks, not in the middle of a poll.
class TcpLink final : private FrameUser {
 public:
  using Clock = Stream::Clock;

  /// Requests that a lane has at a time, and receives. Without data requests there is no data lane,
  /// and the link goes on only when its socket is ready.
  struct Depths {
    std::uint32_t data_requests = 0;
    std::uint32_t data_receives = 0;
    std::uint32_t control = 0;  // each way
  };

  static constexpr std::uint64_t kMaxMessage = 1ULL << 30U;

  /// `queue` and `user` outlive it. May throw std::bad_alloc.
  TcpLink(TcpCompletionQueue& queue, TcpUser& user, const Depths& depths);
  TcpLink(const TcpLink&) = delete;
  TcpLink& operator=(const TcpLink&) = delete;
  ~TcpLink();

  /// One of its two: `control` for words between the ends, which carries messages alone. Of use as
  /// long as the link lives.
  [[nodiscard]] std::unique_ptr<Lane> make_lane(bool control);

  /// The handshake is over. Errors: Stage::connect.
  Result<void> start(Fd socket);

  void progress() noexcept;

  /// Its socket wakes who sleeps: also once there is room again, where something waits for that.
  void wake_by_socket() noexcept;

  /// Ends what this end says, so that the peer sees its end, where no frame can say it any more.
  void hang_up() noexcept;

  /// Has the peer's machine say that it is there.
  void ask_machine() noexcept;

  /// Whether the peer's machine has been silent for longer than `bound`.
  [[nodiscard]] bool is_silent(Clock::time_point now, std::chrono::nanoseconds bound) noexcept;

  /// By what a request names the memory of the peer's that has this token.
  [[nodiscard]] std::uint32_t key_of(std::uint64_t token) { return requester_.key_of(token); }

  /// Why nothing comes any more.
  [[nodiscard]] const std::optional<Error>& fault() const noexcept { return state_.fault; }

  // --- of its lanes: what is posted is sent by send()

  int post(const Operation& operation, std::uint64_t id, bool signaled) noexcept {
    return requester_.post(operation, id, signaled);
  }

  int post(const Message& message, std::uint64_t id, bool control) noexcept;
  int post_receives(std::span<const Receive> receives, bool control, std::size_t& posted) noexcept;
  void send() noexcept;

  /// Nothing moves by that lane from here on; what was posted is flushed.
  void break_off(bool control) noexcept;

  /// The same of both, and nothing completes any more.
  void cut() noexcept;

 private:
  using Frame = wire::TcpFrame;

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

  void serve() noexcept;
  void flush_control() noexcept;
  void shut() noexcept;

  std::optional<Stream> stream_;
  TcpLinkState state_;
  TcpRequester requester_;
  TcpResponder responder_;
  std::size_t completions_ = 0;  // that the queue has room for
  Numbered<Word> words_;         // of the control lane
  std::uint32_t next_word_ = 0;  // of which not all was taken to be sent
  Numbered<Receive> control_receives_;
  bool asks_machine_ = false;
  bool starved_ = false;  // a word has come for which there is no receive
  bool carries_data_;
};

}  // namespace hbmwire::transport
