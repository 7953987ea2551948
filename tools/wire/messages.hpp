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

/// Messages between `hbmwire server` and `hbmwire client`, and between the two sides of `hbmwire
/// perf`, over TCP beside the RDMA connection. Each side sends a preamble of 16 bytes (magic,
/// version), and then frames: length u32, type u16, payload. All integers are big-endian, and
/// lengths are limited. Decoding treats all bytes as foreign.
namespace hbmwire::tools::wire {

inline constexpr std::uint16_t kVersion = 2;
inline constexpr std::size_t kFrameHeaderBytes = 6;
inline constexpr std::size_t kMaxFrameBytes = 65536;
inline constexpr std::size_t kMaxTextBytes = 4096;
inline constexpr std::size_t kDigestBytes = 64;  ///< BLAKE2b-512, as b2sum(1) prints it

/// Client to server, first message: the requested job.
struct Hello {
  enum class Job : std::uint8_t { exchange = 1, file = 2 };
  Job job = Job::exchange;
  std::uint64_t size_bytes = 0;  ///< size of the buffer, `-s`; must equal the server's
  std::uint32_t iterations = 0;  ///< of send and receive (for an exchange)
  std::uint32_t seed = 0;        ///< seed of the patterns
  std::uint64_t file_bytes = 0;  ///< (for a file)
  std::string file_name;         ///< (for a file) base name
  std::string memory;            ///< type of the client's memory, for display

  bool operator==(const Hello&) const = default;
};

/// Server to client: the job is accepted; describes the server's side.
struct Welcome {
  std::uint64_t size_bytes = 0;
  std::string memory;

  bool operator==(const Welcome&) const = default;
};

/// Both ways: the address of this side's queue pair and memory.
struct Address {
  ConnectionAddress connection;
  RemoteMemory memory;

  bool operator==(const Address&) const = default;
};

/// Both ways: this side is ready for this step (receives posted, targets poisoned, sources
/// written).
struct Ready {
  std::uint16_t step = 0;
  bool operator==(const Ready&) const = default;
};

/// Both ways: this side's verdict on the bytes of one operation.
struct Verdict {
  std::string operation;        ///< "send", "response", "write", "read"
  std::uint32_t iteration = 0;  ///< counts from 1
  std::uint64_t bytes = 0;      ///< compared bytes
  std::uint64_t wrong_bytes = 0;
  std::uint64_t offset_bytes = 0;  ///< offset of the first wrong byte
  std::uint8_t expected = 0;
  std::uint8_t got = 0;

  bool operator==(const Verdict&) const = default;
};

/// Server to client: piece `index` of the file has been copied out of device memory; its slot may
/// be overwritten.
struct PieceSaved {
  std::uint64_t index = 0;
  bool operator==(const PieceSaved&) const = default;
};

/// Client to server after the last piece; server to client after the file is in place.
struct FileDone {
  std::array<std::uint8_t, kDigestBytes> digest{};
  std::uint64_t bytes = 0;
  std::uint64_t nanoseconds = 0;  ///< time that the sender of this message spent on loading or
                                  ///< saving
  bool operator==(const FileDone&) const = default;
};

/// Either way, before closing: the reason why this side gives up. The text is foreign: show it, but
/// never act on it.
struct Abort {
  std::string text;
  bool operator==(const Abort&) const = default;
};

/// Both ways, last message: nothing more will follow.
struct Bye {
  bool operator==(const Bye&) const = default;
};

using Message = std::variant<Hello, Welcome, Address, Ready, Verdict, PieceSaved, FileDone, Abort,
                             Bye, PerfRequest, PerfSide, PerfQueues, PerfReport>;

/// "hello" and so on.
[[nodiscard]] std::string_view name_of(const Message& message) noexcept;

/// The bytes of a frame, including length and type. Texts longer than kMaxTextBytes are cut. Throws
/// std::bad_alloc.
[[nodiscard]] std::vector<std::byte> encode(const Message& message);

/// The message with this type and payload. Errors: Errc::protocol, Stage::connect.
[[nodiscard]] Result<Message> decode(std::uint16_t type, std::span<const std::byte> payload);

/// A text from a peer; characters other than printable ASCII are replaced by '?'. Throws
/// std::bad_alloc.
[[nodiscard]] std::string printable(std::string_view foreign);

}  // namespace hbmwire::tools::wire
