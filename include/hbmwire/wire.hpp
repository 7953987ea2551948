// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "hbmwire/deadline.hpp"
#include "hbmwire/error.hpp"
#include "hbmwire/export.hpp"
#include "hbmwire/fd.hpp"
#include "hbmwire/nic.hpp"
#include "hbmwire/perf_messages.hpp"

/// What `hbmwire server` and `hbmwire client`, and the two sides of `hbmwire perf`, say to each
/// other over TCP, beside the RDMA connection. Each side sends a preamble of 16 bytes (magic,
/// version), then frames: length u32, type u16, payload; all integers big-endian, lengths limited.
/// Decoding never trusts a byte: see src/wire.
namespace hbmwire {

class ToldCause;

}  // namespace hbmwire

namespace hbmwire::wire {

inline constexpr std::uint16_t kVersion = 2;
inline constexpr std::size_t kMaxFrameBytes = 65536;
inline constexpr std::size_t kMaxTextBytes = 4096;
inline constexpr std::size_t kDigestBytes = 64;  ///< BLAKE2b-512, as b2sum(1) prints it

/// Client to server, first: what it wants to do.
struct Hello {
  enum class Job : std::uint8_t { exchange = 1, file = 2 };
  Job job = Job::exchange;
  std::uint64_t size_bytes = 0;  ///< of the buffer, `-s`; must be the server's
  std::uint32_t iterations = 0;  ///< of send and receive (exchange)
  std::uint32_t seed = 0;        ///< of the patterns
  std::uint64_t file_bytes = 0;  ///< (file)
  std::string file_name;         ///< (file) base name
  std::string memory;            ///< what kind of memory the client uses, for display

  bool operator==(const Hello&) const = default;
};

/// Server to client: accepted, and what the server's side is like.
struct Welcome {
  std::uint64_t size_bytes = 0;
  std::string memory;

  bool operator==(const Welcome&) const = default;
};

/// Both ways: how to reach this side's queue pair and memory.
struct Address {
  ConnectionAddress connection;
  RemoteMemory memory;

  bool operator==(const Address&) const = default;
};

/// Both ways: this side is ready for the step of that name (receives posted, targets poisoned,
/// sources written).
struct Ready {
  std::uint16_t step = 0;
  bool operator==(const Ready&) const = default;
};

/// Both ways: what this side found in one operation's bytes.
struct Verdict {
  std::string operation;        ///< "send", "response", "write", "read"
  std::uint32_t iteration = 0;  ///< counts from 1
  std::uint64_t bytes = 0;      ///< compared
  std::uint64_t wrong_bytes = 0;
  std::uint64_t offset_bytes = 0;  ///< of the first wrong byte
  std::uint8_t expected = 0;
  std::uint8_t got = 0;

  bool operator==(const Verdict&) const = default;
};

/// Server to client: piece `index` of the file is out of device memory; its slot may be written
/// again.
struct PieceSaved {
  std::uint64_t index = 0;
  bool operator==(const PieceSaved&) const = default;
};

/// Client to server, after the last piece; server to client, after the file is in place.
struct FileDone {
  std::array<std::uint8_t, kDigestBytes> digest{};
  std::uint64_t bytes = 0;
  std::uint64_t nanoseconds = 0;  ///< the sender of this message spent loading, or saving
  bool operator==(const FileDone&) const = default;
};

/// Either way, before closing: why this side gives up. The text is foreign: show it, never act on
/// it.
struct Abort {
  std::string text;
  bool operator==(const Abort&) const = default;
};

/// Both ways, last: nothing more will come.
struct Bye {
  bool operator==(const Bye&) const = default;
};

using Message = std::variant<Hello, Welcome, Address, Ready, Verdict, PieceSaved, FileDone, Abort,
                             Bye, PerfRequest, PerfSide, PerfQueues, PerfReport>;

/// "hello" and so on.
[[nodiscard]] HBMWIRE_API std::string_view name_of(const Message& message) noexcept;

/// A frame's bytes, length and type included. Texts longer than kMaxTextBytes are cut. Throws
/// std::bad_alloc.
[[nodiscard]] HBMWIRE_API std::vector<std::byte> encode(const Message& message);

/// The message in a frame's type and payload. Errors: Errc::protocol, Stage::connect.
[[nodiscard]] HBMWIRE_API Result<Message> decode(std::uint16_t type,
                                                 std::span<const std::byte> payload);

/// A text from a peer with everything but printable ASCII replaced by '?'. Throws std::bad_alloc.
[[nodiscard]] HBMWIRE_API std::string printable(std::string_view foreign);

/// The TCP connection between two peers. Move-only; one thread at a time. Errors carry
/// Stage::connect and the peer's name: Errc::peer_failed when it went away, Errc::protocol when it
/// speaks something else, timed_out, cancelled.
class HBMWIRE_API ControlChannel {
 public:
  /// Resolves `host` (name, IPv4, IPv6), tries each of its addresses, and exchanges preambles.
  static Result<ControlChannel> connect(const std::string& host, std::uint16_t port,
                                        const Wait& wait);

  /// The server's side of a socket that ControlListener::accept() gave: takes the peer's preamble.
  static Result<ControlChannel> accept(Fd socket, std::string peer, const Wait& wait);

  ControlChannel(ControlChannel&&) noexcept = default;
  ControlChannel& operator=(ControlChannel&&) noexcept = default;
  ControlChannel(const ControlChannel&) = delete;
  ControlChannel& operator=(const ControlChannel&) = delete;
  ~ControlChannel() = default;

  Result<void> send(const Message& message, const Wait& wait);

  /// The next message. An Abort of the peer is returned like any other.
  Result<Message> receive(const Wait& wait);

  /// The next message, which must be a `T`: an Abort becomes Errc::peer_failed with its text in
  /// abort_text(), anything else Errc::protocol.
  template <class T>
  Result<T> expect(const Wait& wait) {
    auto message = receive(wait);
    if (!message) return tl::make_unexpected(message.error());
    if (auto* wanted = std::get_if<T>(&*message)) return std::move(*wanted);
    return tl::make_unexpected(unexpected(*message));
  }

  /// What the peer gave as its reason, printable; empty when it gave none.
  [[nodiscard]] const std::string& abort_text() const noexcept { return abort_text_; }

  [[nodiscard]] int fd() const noexcept { return socket_.get(); }

  [[nodiscard]] const std::string& peer() const noexcept { return peer_; }

 private:
  ControlChannel(Fd socket, std::string peer) noexcept
      : socket_(std::move(socket)), peer_(std::move(peer)) {}

  Result<void> take_preamble(const Wait& wait);
  Error unexpected(const Message& message);

  Fd socket_;
  std::string peer_;
  std::string abort_text_;
};

struct ListeningSocket;

/// A listening TCP socket.
class HBMWIRE_API ControlListener {
 public:
  /// `address`: "" for every address, IPv4 and IPv6. Port 0 takes a free one. Errors:
  /// Stage::connect (port in use).
  static Result<ControlListener> listen(const std::string& address, std::uint16_t port);

  ControlListener(ControlListener&&) noexcept;
  ControlListener& operator=(ControlListener&&) noexcept;
  ControlListener(const ControlListener&) = delete;
  ControlListener& operator=(const ControlListener&) = delete;
  ~ControlListener();

  [[nodiscard]] std::uint16_t port() const noexcept;

  /// A peer that has connected, got this side's preamble, and begun to say what it wants; or one
  /// that speaks another protocol or version, or has left, as ControlChannel::accept() then tells.
  /// Connections that say less are closed after 5 s, with a warning in the log, and keep no other
  /// one waiting.
  struct Accepted {
    Fd socket;
    std::string peer;  ///< "192.0.2.1:4711"
  };

  /// Out of descriptors, peers are refused with that reason, which is logged as well.
  Result<Accepted> accept(const Wait& wait);

 private:
  struct Pending {
    Fd socket;
    std::string peer;
    Deadline deadline;
  };

  explicit ControlListener(std::unique_ptr<ListeningSocket> listening);

  void take_connection();
  static void refuse(Fd socket, std::string peer, const Error& why);

  std::unique_ptr<ListeningSocket> listening_;
  std::unique_ptr<ToldCause> shortage_;
  std::vector<Pending> pending_;
};

}  // namespace hbmwire::wire
