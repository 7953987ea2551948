// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "hbmwire/error.hpp"
#include "hbmwire/low_level/connection.hpp"
#include "hbmwire/nic.hpp"

#include "tools/wire/perf_messages.hpp"

/// Messages that `hbmwire server` and `hbmwire client`, and the two sides of `hbmwire perf`, send
/// to each other over TCP, beside the RDMA connection. Each side sends a preamble of 16 bytes
/// (magic, version), then frames: length u32, type u16, payload; all integers big-endian, lengths
/// limited. Decoding never trusts a byte.
///
/// `hbmwire server` (S) and `client` (C); (rdma) goes over the queue pair:
///
///     C: Hello (job, size, iterations, seed)
///     S: Welcome, or Abort (why not)
///     both: Address (queue pair, GID, memory key); queue pairs connected
///     S: first receive posted
///     both: Ready(start)
///     each iteration i
///       C: pattern written, target poisoned, receive posted; send (rdma)
///       S: compared, doubled, target poisoned, receive for i+1 posted; Verdict(send, i);
///          response (rdma)
///       C: compared; Verdict(response, i); waits for Verdict(send, i)
///       S: waits for Verdict(response, i)
///     RDMA write
///       C: target poisoned, empty receive posted; Ready(write_target)
///       S: write, the last message with the immediate value (rdma)
///       C: compared; Verdict(write)
///     RDMA read
///       S: pattern written; Ready(read_source)
///       C: target poisoned; read (rdma); compared; Verdict(read)
///     both: Bye
///
/// A file: after Ready(start) the client writes piece j into slot j mod 2 with the immediate value
/// j (rdma), once PieceSaved(j-2) has come. The server saves it, posts the next receive and sends
/// PieceSaved(j). The client ends with FileDone (digest), the server answers FileDone when the file
/// has its name, and both send Bye. Either side may send Abort (text) at any time, and Ready(alive)
/// while it is busy with its own memory.
namespace hbmwire::tools::wire {

inline constexpr std::uint16_t kVersion = 2;
inline constexpr std::size_t kFrameHeaderBytes = 6;
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
[[nodiscard]] std::string_view name_of(const Message& message) noexcept;

/// A frame's bytes, length and type included. Texts longer than kMaxTextBytes are cut. Throws
/// std::bad_alloc.
[[nodiscard]] std::vector<std::byte> encode(const Message& message);

/// The message in a frame's type and payload. Errors: Errc::protocol, Stage::connect.
[[nodiscard]] Result<Message> decode(std::uint16_t type, std::span<const std::byte> payload);

/// A text from a peer with everything but printable ASCII replaced by '?'. Throws std::bad_alloc.
[[nodiscard]] std::string printable(std::string_view foreign);

}  // namespace hbmwire::tools::wire
