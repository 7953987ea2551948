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
  /// Transfers at a time, 1 to 1,048,576; one that is over counts until its handle has gone. Each
  /// takes some 360 bytes from the start.
  std::uint32_t max_transfers = 4096;

  /// A thread of the library makes progress whenever the application does not, and sleeps when
  /// there is nothing to do. Then all functions of the worker, its endpoints and transfers may be
  /// called from any thread; each takes a lock. The thread ends with the worker. A child by fork(2)
  /// does not have it, and can't give back what its copies of such a worker, and of what belongs to
  /// it, hold.
  bool progress_thread = false;

  /// Bytes of the longest message that may come without being asked for, at most 1 MiB: no endpoint
  /// of the worker has more (EndpointOptions::eager_bytes).
  std::uint32_t eager_bytes = 8192;

  /// Where a NIC has shared receive queues, the worker's endpoints share receives. Each endpoint is
  /// sure of four; beyond these there are as many as fit into so many bytes, on all NICs together,
  /// for endpoints whose peers use them (EndpointOptions::receive_depth).
  std::uint64_t receive_pool_bytes = 8ULL << 20U;

  /// Memory on a NIC, at most, for messages of all its endpoints that came before their receives;
  /// each endpoint has at most EndpointOptions::unexpected_bytes of it. Less than 256 KiB: none.
  std::uint64_t unexpected_bytes = 64ULL << 20U;

  /// TransferReport::times says when each transfer was asked for, posted and over: up to four
  /// looks at the clock for each.
  bool times = false;
};

/// The threads that use a worker without WorkerOptions::progress_thread.
enum class WorkerThreads : std::uint8_t {
  one,  ///< one thread at a time, as the program sees to
  /// Any thread at any time: all functions of the worker, its endpoints and transfers take a lock,
  /// which a thread that sleeps does not hold. The library has no thread of its own.
  any,
};

/// A transfer that is over, as Worker::next_done() tells of it (Transfer::notify()).
struct Done {
  std::uint64_t cookie = 0;  ///< as notify() was given it
  Result<void> result;       ///< success, or why it failed, as Transfer::poll() says
  std::uint64_t bytes = 0;   ///< Transfer::bytes()
  std::uint64_t value = 0;   ///< Transfer::value(), where that means something
  bool settled = true;       ///< Transfer::settled()
};

/// The part that makes progress for endpoints: one for each thread that communicates. Completions,
/// messages and the watch over peers are looked after only while a thread calls progress() or waits
/// for a transfer, or by the thread of WorkerOptions::progress_thread. Copies share it; its
/// endpoints hold it, too. Used by one thread at a time, unless it was made for more
/// (WorkerThreads::any, WorkerOptions::progress_thread).
class HBMWIRE_API Worker {
 public:
  /// Opens the context's NICs unless they are open. Errors: as Context::open_nics(), Stage::open;
  /// Stage::configure: options that can't be; Errc::exhausted: no memory.
  static Result<Worker> create(const Context& context, const WorkerOptions& options = {});

  /// The same for several threads.
  static Result<Worker> create(const Context& context, const WorkerOptions& options,
                               WorkerThreads threads);

  /// Handles all that has happened, without blocking. Gives the number of completions, messages and
  /// connections that it handled.
  std::size_t progress();

  /// Becomes readable (poll(2)) when progress() has something to do or next_done() or
  /// next_message() something to give, after arm(). With WorkerOptions::progress_thread only for
  /// these two, since the thread does everything else. Valid as long as the worker.
  [[nodiscard]] int fd() const noexcept;

  /// To be called before sleeping on fd(). False: something has happened, is staged, or waits for
  /// next_done() or next_message(): look again before sleeping. A sleeper should wake up at least
  /// every wake_after(), since peers are watched. Errors: Stage::complete.
  Result<bool> arm();

  /// How long a program may sleep, from now on, before it must call progress(). With
  /// WorkerOptions::progress_thread the thread sees to that.
  [[nodiscard]] std::chrono::milliseconds wake_after() const noexcept;

  /// The next transfer that is over and for which Transfer::notify() was called, in the order in
  /// which they ended; each exactly once, those that failed as well. Drives the worker once where
  /// none is there yet; never blocks. There is room for all, since each keeps its place among
  /// max_transfers until it is told of. Nothing in a child by fork(2).
  std::optional<Done> next_done();

  /// The next message of any endpoint that hands its messages out (EndpointOptions::messages), in
  /// the order in which they came. Drives the worker once where none is there yet; never blocks.
  /// Those that came before an endpoint ended are still given, until it is closed here or its
  /// Endpoint goes; those of an endpoint that the program does not have yet (Listener::accept())
  /// wait until it has. Nothing in a child by fork(2).
  std::optional<IncomingMessage> next_message();

  /// Waits until one of `transfers` is over, and gives the index of the first one that is, even if
  /// it failed. Nothing when `wait` has ended before, by its deadline or its descriptor, and all of
  /// them go on. Empty handles are ignored. Looks at each of them again and again: for many,
  /// next_done() costs less. Errors: Stage::complete: Errc::invalid_argument: there is none, or one
  /// is of another worker; in a child by fork(2).
  Result<std::optional<std::size_t>> wait_any(std::span<const Transfer> transfers,
                                              const Wait& wait);

  /// Waits until all of `transfers` are over. True when all succeeded; false when `wait` has ended
  /// before, and those that are not over go on. Empty handles are ignored. Errors: why the first
  /// one of those that failed did; Errc::invalid_argument: one is of another worker; in a child by
  /// fork(2).
  Result<bool> wait_all(std::span<const Transfer> transfers, const Wait& wait);

  /// Sleeps until there is something to do, or to take by next_done() or next_message(), and does
  /// it. Errors: Errc::timed_out, Errc::cancelled.
  Result<void> wait(const Wait& wait);

  /// Makes bytes that NICs have written into this memory before visible to the device's own
  /// engines. A receive, a get() and an immediate's receive do so by themselves.
  Result<Transfer> flush(const Slice& memory);

  /// Counters of this worker, with those of its endpoints that have ended (counters.hpp). Any
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
