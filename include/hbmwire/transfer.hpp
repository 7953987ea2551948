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

/// How far a transfer must be to be complete. The acknowledgement of a reliable connection comes
/// when the peer's NIC has the bytes, so that `sent` is earlier than `arrived` only for bytes that
/// were copied into the request.
enum class CompletionLevel : std::uint8_t {
  sent,     ///< the source may be written again
  arrived,  ///< the target's NIC has it all: later reads by a NIC see it
  visible,  ///< the target device's own engines see it, too (a flush follows the bytes)
};

/// By which protocol a transfer went.
enum class Protocol : std::uint8_t {
  direct,            ///< one-sided: the NIC moves between the two regions
  inlined,           ///< the bytes stood in the request
  eager,             ///< sent at once, and copied where the receive wanted them
  rendezvous_read,   ///< the receiver's NIC read them
  rendezvous_write,  ///< the receiver told where, and the sender's NIC wrote them
  proxied,           ///< the peer's process moved them: no NIC reaches its memory
};

/// The words that users see: "sent" and so on; "direct" and so on.
[[nodiscard]] HBMWIRE_API std::string_view to_string(CompletionLevel level) noexcept;
[[nodiscard]] HBMWIRE_API std::string_view to_string(Protocol protocol) noexcept;

/// One of several NICs that carried a transfer.
struct RailReport {
  std::string nic;          ///< this end's
  std::uint64_t bytes = 0;  ///< that it carried; what was repeated counts twice
};

/// When a transfer was asked for, posted and over (WorkerOptions::times).
struct TransferTimes {
  std::chrono::steady_clock::time_point asked;  ///< when the operation was started

  /// When all of it had been handed to the NIC, or for a transfer that goes otherwise (by an
  /// engine, several NICs, staged, by the peer's process) when that was through; for a receive,
  /// when it began to wait. Nothing: it waits for room, or for transfers before it.
  std::optional<std::chrono::steady_clock::time_point> posted = {};

  std::optional<std::chrono::steady_clock::time_point> over =
      {};  ///< when it was over; empty: it is not
};

/// How a transfer went, as far as it is known yet. A value, which outlives the transfer.
struct TransferReport {
  Path path = Path::host;  ///< copy, ipc, shared_memory, or the worse one of both ends'
  Protocol protocol = Protocol::direct;  ///< how the bytes were handed over
  std::string nic;                       ///< this end's; the first of `rails`, where there are
  std::string peer;                      ///< as it was connected to

  MemoryType local_type = MemoryType::host;  ///< of this end's memory
  std::vector<PathTried> local;  ///< of this end's memory, Region::explain(); empty: it has none

  /// Type and path of the peer's memory, as its key says; empty where this end does not learn it
  /// (messages that are sent at once).
  std::optional<MemoryType> remote_type;
  std::optional<Path> remote_path;

  /// Whether an engine of this process carried it (Path::copy), or why none did.
  PathTried copy = {};

  /// Whether an engine of the peer's process opened this end's memory and carried it (Path::ipc),
  /// or why not. Of host memory of two processes of a node, and of messages of theirs: whether it
  /// went by shared memory (its `path` is Path::shared_memory then), or why not.
  PathTried ipc = {};

  /// The NICs of a transfer that went by several, the endpoint's own first.
  std::vector<RailReport> rails = {};

  /// Present where WorkerOptions::times asks for them.
  std::optional<TransferTimes> times = {};
};

/// A sentence: "direct, from here (gaudi by zero-copy dma-buf, mlx5_0) with
/// node2:7000 (cuda by zero-copy dma-buf)", and why no better path was taken where there is one.
/// Throws std::bad_alloc.
[[nodiscard]] HBMWIRE_API std::string describe(const TransferReport& report);

namespace detail {
struct Internals;
struct TransferState;
}  // namespace detail

/// A handle to an operation that was started. Move-only; used by the thread of its worker
/// (WorkerOptions::progress_thread: by any, one at a time). Dropping the handle does not end the
/// operation, whose memory must stay registered until it is over: call wait() or cancel() before.
///
/// The operation is over as soon as it is complete at the level that was asked for, or has failed.
/// A failure is reported only when the operation changes no byte of this side's memory any more,
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

  /// Drives the worker once, and never blocks. True when the operation is over and succeeded, false
  /// while it goes on. Errors: why it failed, Stage::complete.
  Result<bool> poll();

  /// Whether it is over, without driving anything.
  [[nodiscard]] bool done() const noexcept;

  /// Waits until it is over: polls for a moment, then sleeps. At the deadline, or when
  /// `wait.cancel_fd` becomes readable, it is cancelled, and the error is Errc::timed_out or
  /// Errc::cancelled; that may take EndpointOptions::peer_timeout more. Errors besides: why it
  /// failed.
  Result<void> wait(const Wait& wait);

  /// As poll(), again and again until it is over or `wait` ends, by its deadline or by its
  /// descriptor: false, and the transfer goes on as if nothing had been asked.
  Result<bool> poll_until(const Wait& wait);

  /// Worker::next_done() tells of it once it is over, with `cookie`; at once where it is over
  /// already. Asked again before it was told of, the last cookie counts; afterwards it is told of
  /// once more. Also if this handle goes before: the transfer then counts among
  /// WorkerOptions::max_transfers until next_done() has told of it. Does nothing in a child by
  /// fork(2).
  void notify(std::uint64_t cookie) noexcept;

  /// The same for at most so long from now on.
  template <class Rep, class Period>
  Result<void> wait(std::chrono::duration<Rep, Period> at_most) {
    if (has_ended_well()) [[likely]]
      return {};
    return wait(Wait{Deadline::after(at_most), -1});
  }

  /// Ends it, complete or not. A receive that nothing has matched yet just goes. Anything else is
  /// under way: the connection is broken on both sides, so that nothing of it can arrive later,
  /// and all else that goes on there fails (Errc::cancelled). Errors: Errc::timed_out, the peer
  /// did not say within EndpointOptions::peer_timeout that its side is broken: settled() is false.
  Result<void> cancel();

  /// cancel() without waiting: poll(), poll_until() and Worker::next_done() tell when it is over,
  /// with the error that cancel() has it fail with, and settled(). That takes progress of the
  /// worker, and as long as cancel() does: EndpointOptions::peer_timeout, and a second more where
  /// this end's NIC gives back nothing. Its memory stays in use until then. Errors: in a child by
  /// fork(2).
  Result<void> request_cancel();

  /// After a failure: whether the peer's memory can't change by it any more. This side's can't; by
  /// Path::ipc it can where the peer's can.
  [[nodiscard]] bool settled() const noexcept;

  /// Length of the operation in bytes; of a receive that is over, of the message that arrived.
  [[nodiscard]] std::uint64_t bytes() const noexcept;

  /// The result of an operation that is over: of fetch_add() and compare_swap() the value that was
  /// there before, of a receive of an immediate the immediate, of a tagged receive the tag.
  [[nodiscard]] std::uint64_t value() const noexcept;

  /// The path by which it goes: the worse one of both ends', as far as it is known.
  [[nodiscard]] Path path() const noexcept;

  /// How it goes, or went, and for each better path why it was not taken. Still true when its
  /// Region, its RemoteRegion and its Endpoint have gone. Throws std::bad_alloc.
  [[nodiscard]] TransferReport explain() const;

 private:
  friend struct detail::Internals;

  explicit Transfer(detail::TransferState* state) noexcept : state_(state) {}

  void let_go() noexcept;

  /// After one look. A transfer that is over by then needs no look at the clock.
  [[nodiscard]] bool has_ended_well();

  detail::TransferState* state_ = nullptr;
};

}  // namespace hbmwire
