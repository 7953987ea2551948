// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hbmwire/error.hpp"
#include "hbmwire/fd.hpp"

#include "wire/tcp_frame.hpp"

namespace hbmwire::transport {

/// A frame to send. Its bytes must stay in place until FrameUser::sent().
struct OutFrame {
  wire::TcpFrame header;  // `length` is that of the parts
  std::array<std::span<const std::byte>, 2> parts{};
  std::uint64_t mark = 0;  // passed to sent()
  // The parts are the application's memory, which may be gone: only the kernel may read them.
  bool of_application = false;
};

/// The owner of the frames. Only send() and receive() call these functions.
class FrameUser {
 public:
  /// Fills in the next frame to send; returns false if there is none. Frames are sent in the order
  /// in which they were taken.
  virtual bool next(OutFrame& frame) noexcept = 0;

  /// The kernel has taken the whole frame.
  virtual void sent(std::uint64_t mark) noexcept = 0;

  /// The application's memory of this frame cannot be read. This frame, and all later ones that
  /// were taken, are forgotten without sent().
  virtual void unreadable(std::uint64_t mark) noexcept = 0;

  enum class Place : std::uint8_t {
    here,         ///< the bytes that follow go to `memory`
    application,  ///< the same, but it is the application's, and may be gone
    drop,         ///< they are read and discarded
    later,        ///< nothing is read until receive() is called and asks again
  };

  /// The memory for the bytes of `frame` from `offset` on: for all of the rest, or for as many as
  /// may come now. The memory may be written until taken(), which is called within the same
  /// receive().
  virtual Place place(const wire::TcpFrame& frame, std::uint32_t offset,
                      std::span<std::byte>& memory) noexcept = 0;

  /// `bytes` bytes from `offset` on are where place() said. May be 0.
  virtual void taken(const wire::TcpFrame& frame, std::uint32_t offset,
                     std::uint32_t bytes) noexcept = 0;

  /// The application's memory that place() gave cannot be written. From now on place() returns
  /// `drop` or `later`.
  virtual void unwritable(const wire::TcpFrame& frame) noexcept = 0;

  /// All bytes of `frame` were taken or dropped.
  virtual void arrived(const wire::TcpFrame& frame) noexcept = 0;

 protected:
  FrameUser() = default;
  FrameUser(const FrameUser&) = default;
  FrameUser& operator=(const FrameUser&) = default;
  ~FrameUser() = default;
};

/// Frames over a connected, non-blocking TCP socket. Large payloads go from the sender's memory to
/// the kernel, and from there to the receiver's memory, without another copy. Nothing blocks. Only
/// cut_short() allocates. One thread at a time.
class Stream {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::size_t kBuffer = 64U << 10U;
  static constexpr std::size_t kSmallBuffer = 4U << 10U;  ///< for links that carry no data

  /// `peer`: the name in errors. `buffer_bytes`: the size of the buffer for headers and short
  /// frames. The socket stays open until close().
  Stream(Fd socket, FrameUser& user, std::string peer, std::size_t buffer_bytes = kBuffer);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() = default;

  /// Sends the user's frames until the kernel has no more room. Errors, here and below:
  /// Errc::peer_failed (the peer has gone), Errc::protocol (it does not send frames),
  /// Errc::invalid_argument with Hint::memory_gone (the rest of a frame that was begun is gone).
  /// After the first error the stream is over, and returns the same error again.
  Result<void> send() noexcept;

  /// Reads up to some MiB. Returns the number of frames that arrived.
  Result<std::size_t> receive() noexcept;

  /// Whether bytes wait for room in the kernel (EPOLLOUT).
  [[nodiscard]] bool wants_out() const noexcept {
    return batch_sent_ != batch_ || rest_sent_ != rest_.size();
  }

  /// Forgets the frames that were taken from the user but not begun, without sent(). If a frame was
  /// begun, copies its rest and calls sent() for it, so that the user's memory is not read any
  /// more.
  void cut_short() noexcept;

  /// Whether the peer's machine has acknowledged nothing for longer than `bound`, although data is
  /// in flight. The peer's process need not have room: while it is stopped, its machine still
  /// answers.
  [[nodiscard]] bool is_silent(Clock::time_point now, std::chrono::nanoseconds bound) noexcept;

  [[nodiscard]] int fd() const noexcept { return socket_.get(); }

  void close() noexcept { socket_.reset(); }

  [[nodiscard]] const std::optional<Error>& error() const noexcept { return error_; }

 private:
  // One or two large frames fill a socket's buffer; this many small ones share a system call.
  static constexpr std::size_t kBatch = 8;
  // Shorter payloads are copied from the buffer: the same system call may then read the next frame,
  // too.
  static constexpr std::uint32_t kDirect = 16U << 10U;

  /// A frame that was taken from the user, with its encoded header.
  struct Begun {
    OutFrame frame;
    std::array<std::byte, wire::kTcpFrameBytes> bytes;  // the encoded header
  };

  void fill_batch() noexcept;
  ssize_t hand_over(std::span<iovec> pieces, std::size_t whole, bool gathers) noexcept;
  void lose_first() noexcept;
  void break_off(const Error& why) noexcept;
  void take_sent(std::size_t bytes) noexcept;
  void keep_rest(std::span<const std::byte> part) noexcept;

  /// The result of a step of receive().
  enum class Step : std::uint8_t {
    on,          ///< go on
    starved,     ///< the socket has nothing more to read
    later,       ///< stop, although there may be more to read
    over,        ///< the stream has failed
    unwritable,  ///< the application's memory cannot be written
  };

  Step take_header() noexcept;
  Step begin_frame(std::span<const std::byte, wire::kTcpFrameBytes> header) noexcept;
  Step take_payload() noexcept;
  Step take_some(std::span<std::byte> memory, bool of_application) noexcept;
  Step fill(std::span<std::byte> memory, std::size_t& got) noexcept;
  ssize_t take_in(std::span<std::byte> memory) noexcept;
  [[nodiscard]] Result<void> state() const;
  Step fail(Error why) noexcept;

  Fd socket_;
  FrameUser& user_;
  std::string peer_;
  std::optional<Error> error_;

  // Sending: a ring of frames; those in [batch_sent_, batch_) are not sent.
  std::array<Begun, kBatch> ring_;
  std::uint64_t batch_ = 0;
  std::uint64_t batch_sent_ = 0;
  std::size_t sent_of_first_ = 0;  // bytes of the frame at batch_sent_ that the kernel has
  std::vector<std::byte> rest_;    // the rest of a frame that was cut short
  std::size_t rest_sent_ = 0;
  std::optional<Error> send_error_;  // earlier messages of the peer can still be read

  // Receiving. Bytes of `buffer_` in [read_, filled_) were received, and are not taken yet.
  std::vector<std::byte> buffer_;
  std::size_t read_ = 0;
  std::size_t filled_ = 0;
  std::optional<wire::TcpFrame> frame_;  // its bytes are being read
  std::uint32_t offset_ = 0;             // the bytes of that frame so far
  std::size_t got_ = 0;                  // bytes read by this receive()
  bool drained_ = false;                 // this receive() has read all that there was

  std::optional<Clock::time_point> unanswered_since_;
};

}  // namespace hbmwire::transport
