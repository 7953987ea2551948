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

/// A TcpLink's data lane as this end asks by it: its requests, and what the peer says of them. As
/// on a reliable connection requests complete in the order in which they were posted, a SEND once
/// the kernel has it, anything else once the peer has said so.
class TcpRequester {
 public:
  TcpRequester(TcpLinkState& link, std::uint32_t depth) : link_(link), requests_(depth) {}

  TcpRequester(const TcpRequester&) = delete;
  TcpRequester& operator=(const TcpRequester&) = delete;
  ~TcpRequester() = default;

  /// Requests at a time, at least as many as were asked for.
  [[nodiscard]] std::size_t depth() const noexcept { return requests_.entries.size(); }

  /// By what a request names the memory of the peer's that has this token.
  [[nodiscard]] std::uint32_t key_of(std::uint64_t token);

  /// 0, or ENOMEM: the queue is full. next() sends posted requests.
  int post(const Operation& operation, std::uint64_t id, bool signaled) noexcept;
  int post(const Message& message, std::uint64_t id) noexcept;

  /// The next frame of a request; false: there is none now.
  bool next(OutFrame& frame) noexcept;

  /// The kernel has all of a request.
  void sent(std::uint32_t number) noexcept;

  /// The application has unmapped or truncated the memory of a request.
  void lose(std::uint32_t number) noexcept;

  /// Where the peer's bytes go that a READ or an atomic asked for.
  FrameUser::Place place(const wire::TcpFrame& frame, std::uint32_t offset,
                         std::span<std::byte>& memory) noexcept;
  void on_data(const wire::TcpFrame& frame) noexcept;
  void on_done(const wire::TcpFrame& frame) noexcept;
  void on_failed(const wire::TcpFrame& frame) noexcept;

  /// All that was posted completes.
  void flush() noexcept;

  /// Nothing of it does.
  void forget() noexcept;

 private:
  using Frame = wire::TcpFrame;

  struct Request {
    std::uint64_t id = 0;
    Frame::Kind kind = Frame::Kind::message;
    CompletionStatus status = CompletionStatus::success;
    bool reads = false;  // or is an atomic: bytes come back
    bool signaled = false;
    bool fenced = false;
    bool window = false;
    bool with_immediate = false;
    bool sent = false;  // the kernel has all of it
    bool over = false;
    std::array<std::span<std::byte>, 2> parts{};
    std::uint64_t length = 0;
    std::uint64_t remote = 0;
    std::uint64_t key = 0;
    std::uint32_t immediate = 0;
    wire::TcpOperands operands;
    std::uint64_t begun_bytes = 0;  // that were taken to be sent, or have come
  };

  [[nodiscard]] Request request_of(const Operation& from) const noexcept;
  int post(const Request& request) noexcept;
  static bool fill_write(OutFrame& frame, Request& request) noexcept;
  void complete_requests() noexcept;

  TcpLinkState& link_;
  Numbered<Request> requests_;
  std::uint32_t next_ = 0;   // of which not all was taken to be sent
  std::uint32_t reads_ = 0;  // READs and atomics that were sent and are not over
  std::vector<std::uint64_t> tokens_;
};

}  // namespace hbmwire::transport
