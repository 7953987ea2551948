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

/// A frame to be sent, whose bytes stay where they are until FrameUser::sent().
struct OutFrame {
  wire::TcpFrame header;  // `length` is that of the parts
  std::array<std::span<const std::byte>, 2> parts{};
  std::uint64_t mark = 0;  // for sent()
  // The parts are the application's memory, which may be gone: the kernel alone reads them.
  bool of_application = false;
};

/// Whose frames they are. All are called from send() and receive() alone.
class FrameUser {
 public:
  /// The next frame to be sent; false: there is none. The first that was taken is the first that
  /// is sent.
  virtual bool next(OutFrame& frame) noexcept = 0;

  /// The kernel has all of it.
  virtual void sent(std::uint64_t mark) noexcept = 0;

  /// The application's memory of this frame can't be read. Like all frames behind it that were
  /// taken, it is forgotten without sent().
  virtual void unreadable(std::uint64_t mark) noexcept = 0;

  enum class Place : std::uint8_t {
    here,         ///< the bytes that follow go to `memory`
    application,  ///< the same, and it is the application's, which may be gone
    drop,         ///< they are read, and go nowhere
    later,        ///< nothing is read before receive() is called again, which asks again
  };

  /// Where bytes of `frame` from `offset` on go: as many as may come now, all of the rest or some.
  /// What is given may be written until taken(), which follows within the same receive().
  virtual Place place(const wire::TcpFrame& frame, std::uint32_t offset,
                      std::span<std::byte>& memory) noexcept = 0;

  /// So many bytes, from `offset` on, are where place() said: perhaps none.
  virtual void taken(const wire::TcpFrame& frame, std::uint32_t offset,
                     std::uint32_t bytes) noexcept = 0;

  /// The application's memory that place() gave can't be written. From here on it says `drop`, or
  /// `later`.
  virtual void unwritable(const wire::TcpFrame& frame) noexcept = 0;

  /// All that follows `frame`, if anything does, was taken or dropped.
  virtual void arrived(const wire::TcpFrame& frame) noexcept = 0;

 protected:
  FrameUser() = default;
  FrameUser(const FrameUser&) = default;
  FrameUser& operator=(const FrameUser&) = default;
  ~FrameUser() = default;
};

/// Frames over a connected, non-blocking TCP socket. What is large goes from the sender's memory to
/// the kernel and from there to the receiver's: nothing here copies it. Nothing blocks, and nothing
/// is allocated but by cut_short(). One thread at a time.
class Stream {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::size_t kBuffer = 64U << 10U;
  static constexpr std::size_t kSmallBuffer = 4U << 10U;  ///< where no data comes

  /// `peer`: for errors. `buffer_bytes`: of the buffer for headers and short frames. The socket
  /// stays open until close().
  Stream(Fd socket, FrameUser& user, std::string peer, std::size_t buffer_bytes = kBuffer);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() = default;

  /// Sends what the user has, and the kernel takes. Errors, here and below: Errc::peer_failed (the
  /// peer has gone), Errc::protocol (it sends no frames), Errc::invalid_argument (of a frame that
  /// was begun the rest is gone, Hint::memory_gone). After the first one the stream is over,
  /// and says the same again.
  Result<void> send() noexcept;

  /// Reads what has come, up to some MiB. How many frames arrived.
  Result<std::size_t> receive() noexcept;

  /// Something waits for the kernel to take it (EPOLLOUT).
  [[nodiscard]] bool wants_out() const noexcept {
    return batch_sent_ != batch_ || rest_sent_ != rest_.size();
  }

  /// Forgets what was taken from the user and was not begun to be sent, without sent(). Of a frame
  /// that was begun the rest is copied, and it counts as sent: the user's memory is not read any
  /// more.
  void cut_short() noexcept;

  /// Whether the peer's machine has acknowledged nothing for longer than `bound` although something
  /// is on its way to it. It need not have room: a process that is stopped has its machine answer.
  [[nodiscard]] bool is_silent(Clock::time_point now, std::chrono::nanoseconds bound) noexcept;

  [[nodiscard]] int fd() const noexcept { return socket_.get(); }

  void close() noexcept { socket_.reset(); }

  [[nodiscard]] const std::optional<Error>& error() const noexcept { return error_; }

 private:
  // Of large frames one or two fill a socket's buffer; of small ones so many share a system call.
  static constexpr std::size_t kBatch = 8;
  // What is shorter is copied from the buffer, which saves the next frame's system call.
  static constexpr std::uint32_t kDirect = 16U << 10U;

  struct Begun {
    OutFrame frame;
    std::array<std::byte, wire::kTcpFrameBytes> bytes;  // of the header
  };

  void fill_batch() noexcept;
  ssize_t hand_over(std::span<iovec> pieces, std::size_t whole, bool gathers) noexcept;
  void lose_first() noexcept;
  void break_off(const Error& why) noexcept;
  void take_sent(std::size_t bytes) noexcept;
  void keep_rest(std::span<const std::byte> part) noexcept;

  enum class Step : std::uint8_t { on, starved, later, over, unwritable };

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

  // Going: a ring of frames, of which those in [batch_sent_, batch_) are not sent.
  std::array<Begun, kBatch> ring_;
  std::uint64_t batch_ = 0;
  std::uint64_t batch_sent_ = 0;
  std::size_t sent_of_first_ = 0;
  std::vector<std::byte> rest_;  // of a frame that was cut short
  std::size_t rest_sent_ = 0;
  std::optional<Error> send_error_;  // what the peer said before may still be read

  // Coming.
  std::vector<std::byte> buffer_;
  std::size_t read_ = 0;
  std::size_t filled_ = 0;
  std::optional<wire::TcpFrame> frame_;  // whose bytes are being read
  std::uint32_t offset_ = 0;             // of them
  std::size_t got_ = 0;                  // by this receive()
  bool drained_ = false;                 // it has read all that there was

  std::optional<Clock::time_point> unanswered_since_;
};

}  // namespace hbmwire::transport
