// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hbmwire/error.hpp"
#include "hbmwire/export.hpp"
#include "hbmwire/memory.hpp"

/// Counters of what a process has moved, by which path, and what it waits for (docs/metrics.md).
namespace hbmwire {

namespace detail {
struct Internals;
struct PublishedState;
}  // namespace detail

/// The kind of an operation.
enum class TransferKind : std::uint8_t {
  put,        ///< Endpoint::put(), put_blocks(), a prepared list of puts
  get,        ///< Endpoint::get(), get_blocks(), a prepared list of gets
  send,       ///< Endpoint::send(), send_tagged()
  receive,    ///< Endpoint::receive(), receive_tagged(), Worker::next_message()
  atomic,     ///< fetch_add(), compare_swap()
  flush,      ///< Endpoint::flush(), Worker::flush()
  immediate,  ///< Endpoint::receive_immediate()
  task,       ///< connecting, asking for memory by name, closing
};

/// "put", "get" and so on.
[[nodiscard]] HBMWIRE_API std::string_view to_string(TransferKind kind) noexcept;

/// By which series a counter of transfers is one of several.
struct TransferLabels {
  TransferKind kind = TransferKind::put;  ///< the kind of operation
  Path path = Path::host;                 ///< the path that was taken, as Transfer::path()
  MemoryType local = MemoryType::host;    ///< the type of this end's memory
  std::optional<MemoryType> remote = {};  ///< of the peer's; empty: this end did not learn it

  bool operator==(const TransferLabels&) const = default;
};

/// Transfers of one series that have succeeded.
struct TransferCounters {
  TransferLabels labels;         ///< kind, path, memory types
  std::string nic;               ///< the endpoint's first NIC; empty: a task, or the worker's flush
  std::string peer;              ///< address of the peer; "other": HBMWIRE_STATS_PEERS are counted
  std::uint64_t operations = 0;  ///< that have succeeded
  std::uint64_t bytes = 0;       ///< of these operations, each counted once
};

/// Transfers that have failed.
struct FailureCounters {
  Errc code = Errc::system;      ///< why
  std::string nic;               ///< as TransferCounters::nic
  std::string peer;              ///< as TransferCounters::peer
  std::uint64_t operations = 0;  ///< that have failed so
};

/// Upper bounds of the buckets of TransferTimesHistogram::transfers: 2^7 ns (128 ns) for the first
/// one, each twice the one before it; the last one has no bound.
inline constexpr std::size_t kTimeBuckets = 32;

/// How long the transfers of a bucket of TransferTimesHistogram took at most; of the last one:
/// nanoseconds::max().
[[nodiscard]] constexpr std::chrono::nanoseconds time_bucket_bound(std::size_t bucket) noexcept {
  if (bucket + 1 >= kTimeBuckets) return std::chrono::nanoseconds::max();
  return std::chrono::nanoseconds(std::int64_t{1} << (bucket + 7));
}

/// Times from when transfers were asked for to when they were over, of those that succeeded: of one
/// in 64, or of all with WorkerOptions::times.
struct TransferTimesHistogram {
  TransferLabels labels;                                   ///< kind, path, memory types
  std::array<std::uint64_t, kTimeBuckets> transfers = {};  ///< in each bucket, by itself
  std::chrono::nanoseconds sum{0};                         ///< of all their times

  /// All transfers that were timed.
  [[nodiscard]] std::uint64_t count() const noexcept {
    std::uint64_t all = 0;
    for (const std::uint64_t each : transfers) all += each;
    return all;
  }
};

/// Memory that is registered with NICs, and the look-ups of all RegistrationCaches of a process.
struct RegistrationCounters {
  std::uint64_t hits = 0;           ///< look-ups that found a registration
  std::uint64_t misses = 0;         ///< look-ups that registered anew
  std::uint64_t evictions = 0;      ///< registrations that went for a budget
  std::uint64_t registrations = 0;  ///< regions that were registered, ever, cached or not
  std::uint64_t live = 0;           ///< regions that are registered now
  std::uint64_t live_bytes = 0;     ///< of these regions
};

/// One counter of a NIC's port, as the driver tells it in sysfs (counters and hw_counters). It
/// counts for all processes, from when the driver was loaded.
struct NicCounter {
  std::string nic;        ///< "mlx5_0"
  std::uint8_t port = 1;  ///< its number
  std::string name;       ///< the file's: "port_rcv_errors"
  std::uint64_t value =
      0;  ///< as it stands there; of port_xmit_data and port_rcv_data 4-byte words
};

/// Counts since the process began; those of endpoints and workers that have ended are kept. A
/// value: it does not change.
struct Counters {
  std::vector<TransferCounters> transfers;    ///< that succeeded, by series
  std::vector<FailureCounters> failures;      ///< that failed, by cause
  std::vector<TransferTimesHistogram> times;  ///< by series, without NIC and peer

  std::uint64_t started = 0;           ///< transfers that were begun, ever
  std::uint64_t under_way = 0;         ///< of these: neither succeeded nor failed yet
  std::uint64_t queued = 0;            ///< transfers that could not be posted at once
  std::uint64_t credit_waits = 0;      ///< how often messages began to wait for the peer's receives
  std::uint64_t retries = 0;           ///< attempts to connect that were made again
  std::uint64_t endpoints = 0;         ///< that are connected or ending now
  std::uint64_t endpoints_failed = 0;  ///< connections that have failed, ever

  RegistrationCounters registrations;  ///< of the whole process; Worker's and Endpoint's: zeros

  /// The bytes of all transfers of this kind that have succeeded.
  [[nodiscard]] HBMWIRE_API std::uint64_t bytes(TransferKind kind) const noexcept;
};

/// The counters that another process, or this one, publishes (HBMWIRE_STATS=yes).
struct PublishedCounters {
  std::uint32_t process = 0;                    ///< its id
  std::string program;                          ///< its name, as it began
  std::chrono::system_clock::time_point since;  ///< when it began to count
  Counters counters;                            ///< all of its contexts'
};

/// Counters of all contexts of this process. Thread-safe. Errors: Errc::exhausted.
[[nodiscard]] HBMWIRE_API Result<Counters> process_counters();

/// The counters of a process that publishes them, followed from outside. It does not disturb the
/// process, and has its last counts when that has ended, even by SIGKILL. Move-only.
class HBMWIRE_API PublishedProcess {
 public:
  PublishedProcess(PublishedProcess&&) noexcept;
  PublishedProcess& operator=(PublishedProcess&&) noexcept;
  PublishedProcess(const PublishedProcess&) = delete;
  PublishedProcess& operator=(const PublishedProcess&) = delete;
  ~PublishedProcess();

  /// Those of the processes of this user that publish their counters, by their ids; root sees
  /// all users'. Errors: Stage::probe (/proc can't be read, or is not mounted).
  static Result<std::vector<PublishedProcess>> find_all();

  /// The process with this id. Errors: Errc::not_found (there is none, or it does not publish),
  /// Errc::permission_denied (another user's).
  static Result<PublishedProcess> find(std::uint32_t process);

  /// Its id, as this process sees it.
  [[nodiscard]] std::uint32_t process() const noexcept;

  /// Whether it still runs.
  [[nodiscard]] bool is_running() const noexcept;

  /// Its counters now, or at its end. Errors: Errc::protocol (another version of the library).
  [[nodiscard]] Result<PublishedCounters> read() const;

 private:
  friend struct detail::Internals;

  explicit PublishedProcess(std::unique_ptr<detail::PublishedState> state) noexcept;

  std::unique_ptr<detail::PublishedState> state_;
};

/// The counters of a NIC's ports, from sysfs; none where the driver has none. Throws
/// std::bad_alloc.
[[nodiscard]] HBMWIRE_API std::vector<NicCounter> nic_counters(std::string_view nic);

}  // namespace hbmwire
