// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>

#include "transport/lane.hpp"
#include "transport/tcp/completion_queue.hpp"
#include "transport/tcp/user.hpp"

namespace hbmwire::transport {

/// The kinds of frames: the lowest two bits of OutFrame::mark, below the request's number.
enum class TcpMark : std::uint8_t { nothing, word, end_of_request, answer };

[[nodiscard]] inline std::uint64_t mark_of(TcpMark kind, std::uint32_t number = 0) noexcept {
  return static_cast<std::uint64_t>(kind) | std::uint64_t{number} << 2U;
}

[[nodiscard]] inline TcpMark kind_of(std::uint64_t mark) noexcept {
  return static_cast<TcpMark>(mark & 3U);
}

[[nodiscard]] inline std::uint32_t number_of(std::uint64_t mark) noexcept {
  return static_cast<std::uint32_t>(mark >> 2U);
}

/// The state that requester and responder of a TcpLink share: whether the link still moves
/// anything.
struct TcpLinkState {
  TcpLinkState(TcpLink& link_of, TcpCompletionQueue& queue_of, TcpUser& user_of) noexcept
      : link(link_of), queue(queue_of), user(user_of) {}

  void complete(const Completion& completion) noexcept { queue.complete(link, completion); }

  void flush(std::uint64_t id) noexcept {
    complete({.id = id, .status = CompletionStatus::flushed});
  }

  /// Breaks the link: nothing is received any more. Only the first failure is kept.
  void fail(const Error& why) noexcept {
    if (fault) return;
    fault = why;
    user.stop_watching();
    user.note_event();
    user.look_soon();
  }

  void break_protocol(const char* why) noexcept {
    fail(make_error(Errc::protocol, Stage::complete, why, user.peer(), Hint::other_version));
  }

  TcpLink& link;
  TcpCompletionQueue& queue;
  TcpUser& user;
  std::optional<Error> fault;
  bool data_open = true;
  bool control_open = true;
  // One of this end's requests has failed before it was sent completely. As with a queue pair in
  // ERROR, the data lane then carries nothing but the ends of requests that were sent before.
  bool broken = false;
};

[[nodiscard]] inline std::span<std::byte> memory_of(const Element& element) noexcept {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the elements of a lane are addresses, as with a NIC.
  return {reinterpret_cast<std::byte*>(element.address), element.length};
}

}  // namespace hbmwire::transport
