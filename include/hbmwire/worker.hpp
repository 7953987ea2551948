// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "hbmwire/context.hpp"
#include "hbmwire/deadline.hpp"
#include "hbmwire/error.hpp"
#include "hbmwire/export.hpp"
#include "hbmwire/incoming_message.hpp"
#include "hbmwire/transfer.hpp"

namespace hbmwire {

struct Counters;

namespace detail {
struct Internals;
struct WorkerState;
}  // namespace detail

/// How many transfers a worker has, and how much memory it takes for messages.
struct WorkerOptions {
  /// Transfers at a time, 1 to 1,048,576. A transfer that is over counts until its handle has gone.
  /// Each takes some 360 bytes of memory from the start.
  std::uint32_t max_transfers = 4096;

  /// A thread of the library makes progress whenever the application does not, and sleeps when
  /// there is nothing to do. All functions of the worker, its endpoints and transfers may then be
  /// called from any thread; each takes a lock. The thread ends with the worker. A child by fork(2)
  /// does not have the thread: its copies of such a worker, and of its endpoints and transfers,
  /// cannot give back what they hold.
  bool progress_thread = false;

  /// Length in bytes of the longest message that may come without being asked for, at most 1 MiB.
  /// It limits EndpointOptions::eager_bytes of all endpoints of the worker.
  std::uint32_t eager_bytes = 8192;

  /// Bytes for receives that the worker's endpoints share, on all NICs together, where a NIC has
  /// shared receive queues. Four receives are certain for each endpoint; the others serve endpoints
  /// whose peers use them (EndpointOptions::receive_depth).
  std::uint64_t receive_pool_bytes = 8ULL << 20U;

  /// Bytes on each NIC, at most, for messages that came before their receives. All endpoints share
  /// them; each has at most EndpointOptions::unexpected_bytes of them. Less than 256 KiB: none.
  std::uint64_t unexpected_bytes = 64ULL << 20U;

  /// Whether TransferReport::times says when each transfer was asked for, posted and over. Costs up
  /// to four clock reads for each transfer.
  bool times = false;
};

/// The threads that use a worker without WorkerOptions::progress_thread.
enum class WorkerThreads : std::uint8_t {
  one,  ///< one thread at a time; the program takes care of that
  /// Any thread at any time. All functions of the worker, its endpoints and transfers take a lock,
  /// which a sleeping thread does not hold. The library has no thread of its own.
  any,
};

/// A transfer that is over, as Worker::next_done() gives it (Transfer::notify()).
struct Done {
  std::uint64_t cookie = 0;  ///< as given to notify()
  Result<void> result;       ///< success, or the error that Transfer::poll() gives
  std::uint64_t bytes = 0;   ///< Transfer::bytes()
  std::uint64_t value = 0;   ///< Transfer::value(), where that means something
  bool settled = true;       ///< Transfer::settled()
};

/// The part that makes progress for endpoints: one for each thread that communicates. Completions,
/// messages and the watch over peers are handled only while a thread calls progress() or waits for
/// a transfer, or by the thread of WorkerOptions::progress_thread. Copies share it; its endpoints
/// hold it, too. Used by one thread at a time, unless it was made for more (WorkerThreads::any,
/// WorkerOptions::progress_thread).
class HBMWIRE_API Worker {
 public:
  /// Opens the context's NICs unless they are open. Errors: as Context::open_nics(), Stage::open;
  /// Stage::configure: invalid options; Errc::exhausted: no memory.
  static Result<Worker> create(const Context& context, const WorkerOptions& options = {});

  /// The same for a worker that several threads use.
  static Result<Worker> create(const Context& context, const WorkerOptions& options,
                               WorkerThreads threads);

  /// Handles everything that has happened, without blocking. Gives the number of completions,
  /// messages and connections that it handled.
  std::size_t progress();

  /// After arm(), becomes readable (poll(2)) when progress() has something to do, or next_done() or
  /// next_message() something to give. With WorkerOptions::progress_thread it becomes readable only
  /// for the latter two, since the thread does everything else. Valid as long as the worker.
  [[nodiscard]] int fd() const noexcept;

  /// Call it before sleeping on fd(). False: do not sleep, call progress() again, since something
  /// has happened, staged transfers are under way, or next_done() or next_message() have something
  /// to give. A program that sleeps should wake up at least every wake_after(), since peers are
  /// watched. Errors: Stage::complete.
  Result<bool> arm();

  /// How long a program may sleep, from now on, before it must call progress(). With
  /// WorkerOptions::progress_thread the thread takes care of that.
  [[nodiscard]] std::chrono::milliseconds wake_after() const noexcept;

  /// The next transfer that is over and for which Transfer::notify() was called, in the order in
  /// which they ended. Each is given exactly once, failed ones as well. Drives the worker once if
  /// there is none yet; never blocks. None is lost for lack of room, since each keeps its place
  /// among max_transfers until it is given. Nothing in a child by fork(2).
  std::optional<Done> next_done();

  /// The next message of any endpoint that hands its messages out (EndpointOptions::messages), in
  /// the order in which they came. Drives the worker once if there is none yet; never blocks.
  /// Messages that came before their endpoint ended are still given, until the endpoint is closed
  /// here or its Endpoint goes. Messages of an endpoint that the program has not taken yet
  /// (Listener::accept()) wait until it has. Nothing in a child by fork(2).
  std::optional<IncomingMessage> next_message();

  /// Waits until one of `transfers` is over, and gives the index of the first such one, even if it
  /// failed. Gives nothing if `wait` ends before, by its deadline or its descriptor; all of them go
  /// on then. Ignores empty handles. Polls each of them again and again: for many, next_done()
  /// costs less. Errors: Stage::complete: Errc::invalid_argument: there is none, or one is of
  /// another worker; Errc::not_supported: in a child by fork(2).
  Result<std::optional<std::size_t>> wait_any(std::span<const Transfer> transfers,
                                              const Wait& wait);

  /// Waits until all of `transfers` are over. True if all succeeded. False if `wait` ends before;
  /// those that are not over go on then. Ignores empty handles. Errors: that of the first one that
  /// failed; Errc::invalid_argument: one is of another worker; Errc::not_supported: in a child by
  /// fork(2).
  Result<bool> wait_all(std::span<const Transfer> transfers, const Wait& wait);

  /// Sleeps until there is work for progress(), which it then does, or something for next_done() or
  /// next_message() to give. Errors: Errc::timed_out, Errc::cancelled.
  Result<void> wait(const Wait& wait);

  /// Makes bytes that NICs have written into this memory before the call visible to the device's
  /// own engines. A receive, a get() and a receive of an immediate do so by themselves.
  Result<Transfer> flush(const Slice& memory);

  /// Counters of this worker, including those of its endpoints that have ended (counters.hpp). Any
  /// thread may ask, at any time. Errors: Errc::exhausted.
  [[nodiscard]] Result<Counters> counters() const;

  /// The context that it was made with. Valid as long as the worker.
  [[nodiscard]] const Context& context() const noexcept;

 private:
  friend struct detail::Internals;

  explicit Worker(std::shared_ptr<detail::WorkerState> state) noexcept : state_(std::move(state)) {}

  std::shared_ptr<detail::WorkerState> state_;
};

}  // namespace hbmwire
