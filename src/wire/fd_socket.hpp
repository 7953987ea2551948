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

/// Abstract stream sockets of unix(7), and descriptors that are sent over them (SCM_RIGHTS). All
/// sockets are non-blocking and close-on-exec. Errors: Stage::connect.
namespace hbmwire::wire {

/// The longest name that is accepted, in bytes; the kernel's limit is 107.
inline constexpr std::size_t kMaxAbstractNameBytes = 100;

/// Errors: Errc::busy (the name is taken).
Result<Fd> listen_abstract(const std::string& name);

/// Waits for room in the listener's queue. Errors: Errc::invalid_argument (an impossible name),
/// Errc::peer_failed (no process listens), Errc::timed_out, Errc::cancelled.
Result<Fd> connect_abstract(const std::string& name, const Wait& wait);

/// The effective user id of the other end when it connected or began to listen, from the kernel
/// (SO_PEERCRED).
Result<uid_t> peer_user(int socket);

/// The number of bytes that one call received; 0 is the end of the stream. No value: it would have
/// blocked.
using Arrival = std::optional<std::size_t>;

/// Receives bytes that no descriptors should come with. The kernel closes descriptors that come
/// anyway: they never belong to this process. Errors: Errc::protocol (some came),
/// Errc::peer_failed.
Result<Arrival> receive_bytes(int socket, std::span<std::byte> into);

/// The descriptors that came, owned.
struct ReceivedFds {
  std::array<Fd, 4> fds;  ///< the kernel closes those of a message that do not fit
  std::size_t count = 0;
};

/// Receives bytes with which one descriptor may come. Further errors: Errc::protocol (more than one
/// came); Errc::exhausted (the process could not take all that were sent, because of its limit of
/// open files). `received` owns those that came, even after an error.
Result<Arrival> receive_with_fd(int socket, std::span<std::byte> into, ReceivedFds& received);

/// Sends all of `data`, which must be short, with a copy of `fd` (-1: none). Returns false if there
/// is no room; nothing is sent then.
Result<bool> send_with_fd(int socket, std::span<const std::byte> data, int fd);

}  // namespace hbmwire::wire
