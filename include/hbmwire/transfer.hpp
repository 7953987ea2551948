// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hbmwire/deadline.hpp"
#include "hbmwire/error.hpp"
#include "hbmwire/export.hpp"
#include "hbmwire/memory.hpp"
#include "hbmwire/region.hpp"

namespace hbmwire {

/// How far a transfer must be to be complete. A reliable connection acknowledges when the peer's
/// NIC has the bytes. Therefore `sent` is earlier than `arrived` only for bytes that were copied
/// into the request.
enum class CompletionLevel : std::uint8_t {
  sent,     ///< the source may be written again
  arrived,  ///< the target's NIC has it all: later reads by a NIC see it
  visible,  ///< the target device's own engines see it, too (a flush follows the bytes)
};

/// The protocol by which a transfer went.
enum class Protocol : std::uint8_t {
  direct,            ///< one-sided: the NIC moves between the two regions
  inlined,           ///< the request itself held the bytes
  eager,             ///< sent at once; the receiver copied the bytes to the receive's memory
  rendezvous_read,   ///< the receiver's NIC read the bytes
  rendezvous_write,  ///< the receiver told its address, and the sender's NIC wrote the bytes
  proxied,           ///< the peer's process moved the bytes: no NIC reaches its memory
};

/// The words that users see: "sent" and so on; "direct" and so on.
[[nodiscard]] HBMWIRE_API std::string_view to_string(CompletionLevel level) noexcept;
[[nodiscard]] HBMWIRE_API std::string_view to_string(Protocol protocol) noexcept;

/// One of several NICs that carried a transfer.
struct RailReport {
  std::string nic;          ///< this end's
  std::uint64_t bytes = 0;  ///< bytes that it carried; repeated ones count twice
};

/// When a transfer was asked for, posted and over (WorkerOptions::times).
struct TransferTimes {
  std::chrono::steady_clock::time_point asked;  ///< when the operation was started

  /// When all of it had been handed to the NIC. For a transfer by another way (an engine, several
  /// NICs, staged, the peer's process): when that had moved all of it. For a receive: when it began
  /// to wait. Empty: it waits for room, or for earlier transfers.
  std::optional<std::chrono::steady_clock::time_point> posted = {};

  std::optional<std::chrono::steady_clock::time_point> over =
      {};  ///< when it was over; empty: it is not
};

/// How a transfer went, as far as it is known yet. A value, which outlives the transfer.
struct TransferReport {
  Path path = Path::host;  ///< copy, ipc, shared_memory, or else the worse one of both ends' paths
  Protocol protocol = Protocol::direct;  ///< how the bytes were handed over
  std::string nic;                       ///< this end's NIC; the first of `rails`, if there are any
  std::string peer;                      ///< the address that this end connected to or accepted

  MemoryType local_type = MemoryType::host;  ///< of this end's memory
  std::vector<PathTried> local;  ///< paths of this end's memory, Region::explain(); empty: it has
                                 ///< no memory

  /// Type and path of the peer's memory, as its key says. Empty if this end does not learn them
  /// (messages that are sent at once).
  std::optional<MemoryType> remote_type;
  std::optional<Path> remote_path;

  /// Whether an engine of this process carried it (Path::copy), or why none did.
  PathTried copy = {};

  /// Whether an engine of the peer's process opened this end's memory and carried it (Path::ipc),
  /// or why not. For host memory of two processes of a node, including messages: whether it went by
  /// shared memory (`path` of this value is then Path::shared_memory), or why not.
  PathTried ipc = {};

  /// The NICs of a transfer that went by several of them, the endpoint's own first.
  std::vector<RailReport> rails = {};

  /// Present if WorkerOptions::times asks for them.
  std::optional<TransferTimes> times = {};
};

/// A sentence: "direct, from here (gaudi by zero-copy dma-buf, mlx5_0) with node2:7000 (cuda by
/// zero-copy dma-buf)". If there is a better path, the sentence says why it was not taken. Throws
/// std::bad_alloc.
[[nodiscard]] HBMWIRE_API std::string describe(const TransferReport& report);

namespace detail {
struct Internals;
struct TransferState;
}  // namespace detail

/// A handle to an operation that was started. Move-only; used by the thread of its worker
/// (WorkerOptions::progress_thread: by any thread, one at a time). Dropping the handle does not end
/// the operation, and its memory must stay registered until the operation is over: call wait() or
/// cancel() before.
///
/// The operation is over as soon as it is complete at the level that was asked for, or has failed.
/// A failure is reported only when the operation can change no more bytes of this side's memory,
/// nor of the peer's, unless settled() says otherwise.
class HBMWIRE_API Transfer {
 public:
  Transfer() noexcept = default;

  Transfer(Transfer&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}

  Transfer& operator=(Transfer&& other) noexcept {
    if (this == &other) return *this;
    reset();
    state_ = std::exchange(other.state_, nullptr);
    return *this;
  }

  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  ~Transfer() { reset(); }

  /// Drops the handle: the operation goes on without it.
  void reset() noexcept {
    if (state_ != nullptr) let_go();
  }

  /// Whether it is a handle to an operation.
  explicit operator bool() const noexcept { return state_ != nullptr; }

  /// Drives the worker once; never blocks. True when the operation is over and succeeded, false
  /// while it goes on. Errors: why it failed, Stage::complete.
  Result<bool> poll();

  /// Whether it is over. Does not drive the worker.
  [[nodiscard]] bool done() const noexcept;

  /// Waits until it is over: polls for a moment, then sleeps. At the deadline, or when
  /// `wait.cancel_fd` becomes readable, cancels the operation, which may take
  /// EndpointOptions::peer_timeout more. The error is then Errc::timed_out or Errc::cancelled.
  /// Errors besides: why it failed.
  Result<void> wait(const Wait& wait);

  /// Calls poll() again and again until the operation is over or `wait` ends. False if `wait` has
  /// ended, by its deadline or its descriptor; the transfer goes on undisturbed.
  Result<bool> poll_until(const Wait& wait);

  /// Makes Worker::next_done() give this transfer, with `cookie`, once it is over, or at once if it
  /// is over already. If this is called again before next_done() gave it, the last cookie counts;
  /// if it is called afterwards, next_done() gives it once more. The handle may go before: the
  /// transfer then counts among WorkerOptions::max_transfers until next_done() has given it. Does
  /// nothing in a child by fork(2).
  void notify(std::uint64_t cookie) noexcept;

  /// wait(Wait) for at most this long from now on.
  template <class Rep, class Period>
  Result<void> wait(std::chrono::duration<Rep, Period> at_most) {
    if (has_ended_well()) [[likely]]
      return {};
    return wait(Wait{Deadline::after(at_most), -1});
  }

  /// Ends the operation, complete or not. A receive that no message has matched yet is only
  /// withdrawn. For any other operation under way, the connection is broken on both sides, so that
  /// none of its bytes can arrive later; all other operations on that connection fail
  /// (Errc::cancelled). Errors: Errc::timed_out: the peer did not say within
  /// EndpointOptions::peer_timeout that its side is broken, and settled() is false.
  Result<void> cancel();

  /// cancel() without waiting. poll(), poll_until() and Worker::next_done() tell when the operation
  /// is over: it fails with the error that cancel() gives it, and settled() holds as after
  /// cancel(). It needs progress of the worker, and takes as long as cancel():
  /// EndpointOptions::peer_timeout, plus a second if this end's NIC gives back none of its
  /// requests. The operation's memory stays in use until then. Errors: Errc::not_supported, in a
  /// child by fork(2).
  Result<void> request_cancel();

  /// After a failure: whether the operation can no longer change the peer's memory. As long as it
  /// can, an operation by Path::ipc may also change this side's memory; any other one cannot.
  [[nodiscard]] bool settled() const noexcept;

  /// Length of the operation in bytes. For a receive that is over, the length of the message that
  /// arrived.
  [[nodiscard]] std::uint64_t bytes() const noexcept;

  /// The result of an operation that is over. For fetch_add() and compare_swap(): the value that
  /// was there before. For a receive of an immediate: the immediate. For a tagged receive: the tag.
  [[nodiscard]] std::uint64_t value() const noexcept;

  /// The path by which it goes: the worse one of both ends' paths, as far as it is known.
  [[nodiscard]] Path path() const noexcept;

  /// How it goes, or went, and why no better path was taken. Stays true when its Region, its
  /// RemoteRegion and its Endpoint have gone. Throws std::bad_alloc.
  [[nodiscard]] TransferReport explain() const;

 private:
  friend struct detail::Internals;

  explicit Transfer(detail::TransferState* state) noexcept : state_(state) {}

  void let_go() noexcept;

  /// Polls once, and tells whether it has succeeded: such a transfer needs no clock read.
  [[nodiscard]] bool has_ended_well();

  detail::TransferState* state_ = nullptr;
};

}  // namespace hbmwire
