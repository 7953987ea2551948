// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transport/lane.hpp"
#include "transport/tcp/link_state.hpp"
#include "transport/tcp/numbered.hpp"
#include "transport/tcp/stream.hpp"
#include "wire/tcp_frame.hpp"

namespace hbmwire::transport {

/// The part of a TcpLink's data lane that sends this end's requests and handles the peer's answers.
/// Requests complete in the order in which they were posted, as on a reliable connection. A SEND
/// completes when the kernel has it, any other request when the peer has confirmed it.
class TcpRequester {
 public:
  TcpRequester(TcpLinkState& link, std::uint32_t depth) : link_(link), requests_(depth) {}

  TcpRequester(const TcpRequester&) = delete;
  TcpRequester& operator=(const TcpRequester&) = delete;
  ~TcpRequester() = default;

  /// The number of requests that it can hold: at least as many as were asked for.
  [[nodiscard]] std::size_t depth() const noexcept { return requests_.entries.size(); }

  /// The key by which a request names the peer's memory with this token.
  [[nodiscard]] std::uint32_t key_of(std::uint64_t token);

  /// Returns 0, or ENOMEM if the queue is full. next() sends the posted requests.
  int post(const Operation& operation, std::uint64_t id, bool signaled) noexcept;
  int post(const Message& message, std::uint64_t id) noexcept;

  /// Fills in the next frame of a request; returns false if there is none now.
  bool next(OutFrame& frame) noexcept;

  /// The kernel has taken all of a request.
  void sent(std::uint32_t number) noexcept;

  /// The application has unmapped or truncated the memory of a request.
  void lose(std::uint32_t number) noexcept;

  /// The memory for the bytes that a READ or an atomic asked for.
  FrameUser::Place place(const wire::TcpFrame& frame, std::uint32_t offset,
                         std::span<std::byte>& memory) noexcept;
  void on_data(const wire::TcpFrame& frame) noexcept;
  void on_done(const wire::TcpFrame& frame) noexcept;
  void on_failed(const wire::TcpFrame& frame) noexcept;

  /// Completes all that was posted.
  void flush() noexcept;

  /// Forgets all that was posted, without completions.
  void forget() noexcept;

 private:
  using Frame = wire::TcpFrame;

  /// A request that was posted and has not completed.
  struct Request {
    std::uint64_t id = 0;
    Frame::Kind kind = Frame::Kind::message;
    CompletionStatus status = CompletionStatus::success;
    bool reads = false;  // or is an atomic: bytes come back
    bool signaled = false;
    bool fenced = false;
    bool window = false;  // `key` is that of a receive of the peer
    bool with_immediate = false;
    bool sent = false;  // the kernel has all of it
    bool over = false;  // has ended; completes when all requests before it have
    std::array<std::span<std::byte>, 2> parts{};
    std::uint64_t length = 0;
    std::uint64_t remote = 0;
    std::uint64_t key = 0;
    std::uint32_t immediate = 0;
    wire::TcpOperands operands;
    std::uint64_t begun_bytes = 0;  // taken to be sent, or received
  };

  [[nodiscard]] Request request_of(const Operation& from) const noexcept;
  int post(const Request& request) noexcept;
  static bool fill_write(OutFrame& frame, Request& request) noexcept;
  void complete_requests() noexcept;

  TcpLinkState& link_;
  Numbered<Request> requests_;
  std::uint32_t next_ = 0;             // the first one that is not completely taken to be sent
  std::uint32_t reads_ = 0;            // READs and atomics that were sent and have not ended
  std::vector<std::uint64_t> tokens_;  // by the keys that key_of() gives
};

}  // namespace hbmwire::transport
