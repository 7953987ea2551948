// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "hbmwire/deadline.hpp"
#include "hbmwire/error.hpp"
#include "hbmwire/fd.hpp"

/// Abstract stream sockets of unix(7), and descriptors that travel over them (SCM_RIGHTS). All are
/// non-blocking and close-on-exec. Errors: Stage::connect.
namespace hbmwire::wire {

/// The longest name that is accepted, in bytes; the kernel takes 107.
inline constexpr std::size_t kMaxAbstractNameBytes = 100;

/// Errors: Errc::busy (the name is taken).
Result<Fd> listen_abstract(const std::string& name);

/// Waits for room in the listener's queue. Errors: Errc::invalid_argument (a name that can't be),
/// peer_failed (nobody listens), timed_out, cancelled.
Result<Fd> connect_abstract(const std::string& name, const Wait& wait);

/// The effective user id that the other end had when it connected, or began to listen: of the
/// kernel, SO_PEERCRED.
Result<uid_t> peer_user(int socket);

/// What one call brought: 0 bytes are the end of the stream. Nothing: it would have blocked.
using Arrival = std::optional<std::size_t>;

/// For an end to which nobody has to send descriptors: the kernel closes those that come, none is
/// ever this process's. Errors: Errc::protocol (some came), peer_failed.
Result<Arrival> receive_bytes(int socket, std::span<std::byte> into);

/// Descriptors that came, owned.
struct ReceivedFds {
  std::array<Fd, 4> fds;  ///< more with one message are the kernel's to close
  std::size_t count = 0;
};

/// The same for an end that waits for one descriptor. Errors besides: Errc::protocol: more than
/// one; Errc::exhausted: not all of what was sent could be made this process's (its limit of open
/// files). `received` owns what came, also then.
Result<Arrival> receive_with_fd(int socket, std::span<std::byte> into, ReceivedFds& received);

/// All of `data`, which must be short, with a copy of `fd` (-1: none) beside it, or nothing: false
/// when there is no room for it.
Result<bool> send_with_fd(int socket, std::span<const std::byte> data, int fd);

}  // namespace hbmwire::wire
