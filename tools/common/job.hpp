// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "tools/common/local_side.hpp"
#include "tools/common/report.hpp"
#include "tools/common/session.hpp"
#include "tools/common/staging.hpp"

namespace hbmwire::tools {

/// The objects for a job, which is an exchange or a file. Both tools implement their half of each
/// job.
struct Job {
  LocalSide& side;
  Session& session;
  Output& output;
  Report& report;
  std::string peer_role;  ///< "server" or "client"

  /// The half of the buffer to send from, and the half to receive into.
  [[nodiscard]] Window transmit() const noexcept {
    return {side.layout.transmit(), side.layout.size_bytes};
  }

  [[nodiscard]] Window receive() const noexcept {
    return {side.layout.receive(), side.layout.size_bytes};
  }

  [[nodiscard]] Slice slice(std::uint64_t offset_bytes, std::uint64_t length_bytes) const noexcept {
    return {&side.buffer.region(), offset_bytes, length_bytes};
  }

  /// The direction of a copy, as output lines begin.
  [[nodiscard]] std::string host_to_buffer() const { return fmt::format("[CPU→{}]", side.place()); }

  [[nodiscard]] std::string buffer_to_host() const { return fmt::format("[{}→CPU]", side.place()); }
};

// The functions up to read_all() each move one window, cut into pieces. Functions with an
// `operation` count its completions in the report.

/// Posts receives for the whole receive half.
Outcome<void> post_receives(Job& job);

/// Waits until all pieces have arrived, each with the expected length.
Outcome<void> await_receives(Job& job, const std::string& operation);

/// Sends the transmit half, and waits for its completions.
Outcome<void> send_all(Job& job, const std::string& operation);

/// Writes the transmit half into the peer's receive half; the last piece carries `immediate`.
Outcome<void> write_all(Job& job, const std::string& operation, std::uint32_t immediate);

/// Reads the peer's transmit half into the receive half.
Outcome<void> read_all(Job& job, const std::string& operation);

/// Reports this side's verdict to the user, the report and the peer.
Outcome<void> deliver_verdict(Job& job, const std::string& operation, std::uint32_t iteration,
                              const Comparison& found);

/// Waits for the peer's verdict.
Outcome<void> hear_verdict(Job& job, const std::string& operation, std::uint32_t iteration);

}  // namespace hbmwire::tools
