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

/// Counters of a process: the bytes it moved, the paths they took, and its waits (docs/metrics.md).
namespace hbmwire {

namespace detail {
struct Internals;
struct PublishedState;
}  // namespace detail

/// The kind of an operation.
enum class TransferKind : std::uint8_t {
  put,        ///< Endpoint::put(), put_blocks(), a prepared list of puts
  get,        ///< Endpoint::get(), get_blocks(), a prepared list of gets
  send,       ///< Endpoint::send()
  receive,    ///< Endpoint::receive(), Worker::next_message()
  atomic,     ///< fetch_add(), compare_swap()
  flush,      ///< Endpoint::flush(), Worker::flush()
  immediate,  ///< Endpoint::receive_immediate()
  task,       ///< connecting, asking for memory by name, closing
};

/// "put", "get" and so on.
[[nodiscard]] HBMWIRE_API std::string_view to_string(TransferKind kind) noexcept;

/// The labels that tell one series of transfers from another.
struct TransferLabels {
  TransferKind kind = TransferKind::put;  ///< the kind of operation
  Path path = Path::host;                 ///< the path that was taken, as Transfer::path()
  MemoryType local = MemoryType::host;    ///< the type of this end's memory
  std::optional<MemoryType> remote = {};  ///< of the peer's memory; empty: this end did not learn
                                          ///< it

  bool operator==(const TransferLabels&) const = default;
};

/// Transfers of one series that have succeeded.
struct TransferCounters {
  TransferLabels labels;         ///< kind, path, memory types
  std::string nic;               ///< the endpoint's first NIC; empty: a task, or a flush of the
                                 ///< worker
  std::string peer;              ///< address of the peer; "other": HBMWIRE_STATS_PEERS peers are
                                 ///< counted already
  std::uint64_t operations = 0;  ///< operations that have succeeded
  std::uint64_t bytes = 0;       ///< bytes of these operations, each counted once
};

/// Transfers that have failed.
struct FailureCounters {
  Errc code = Errc::system;      ///< why they failed
  std::string nic;               ///< as TransferCounters::nic
  std::string peer;              ///< as TransferCounters::peer
  std::uint64_t operations = 0;  ///< operations that have failed for this reason
};

/// How many buckets TransferTimesHistogram::transfers has. The upper bound of the first is 2^7 ns
/// (128 ns), and each further bound is twice the one before it; the last bucket has no bound.
inline constexpr std::size_t kTimeBuckets = 32;

/// The upper bound of a bucket of TransferTimesHistogram: its transfers took no longer.
/// nanoseconds::max() for the last bucket.
[[nodiscard]] constexpr std::chrono::nanoseconds time_bucket_bound(std::size_t bucket) noexcept {
  if (bucket + 1 >= kTimeBuckets) return std::chrono::nanoseconds::max();
  return std::chrono::nanoseconds(std::int64_t{1} << (bucket + 7));
}

/// Times of transfers that have succeeded, from when they were asked for to when they were over.
/// One transfer in 64 is timed, or all with WorkerOptions::times.
struct TransferTimesHistogram {
  TransferLabels labels;                                   ///< kind, path, memory types
  std::array<std::uint64_t, kTimeBuckets> transfers = {};  ///< how many are in each bucket alone
  std::chrono::nanoseconds sum{0};                         ///< sum of their times

  /// How many transfers were timed.
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
  std::uint64_t evictions = 0;      ///< registrations that were dropped to stay within a budget
  std::uint64_t registrations = 0;  ///< all regions that were ever registered, cached or not
  std::uint64_t live = 0;           ///< regions that are registered now
  std::uint64_t live_bytes = 0;     ///< bytes of these regions
};

/// One counter of a NIC's port, as the driver publishes it in sysfs (counters and hw_counters). It
/// counts for all processes, from when the driver was loaded.
struct NicCounter {
  std::string nic;        ///< "mlx5_0"
  std::uint8_t port = 1;  ///< its number
  std::string name;       ///< the name of its file: "port_rcv_errors"
  std::uint64_t value =
      0;  ///< as the file has it; port_xmit_data and port_rcv_data count 4-byte words
};

/// Counts since the process began, including those of endpoints and workers that have ended. A
/// value: it does not change.
struct Counters {
  std::vector<TransferCounters> transfers;    ///< that succeeded, by series
  std::vector<FailureCounters> failures;      ///< that failed, by cause
  std::vector<TransferTimesHistogram> times;  ///< by series, without NIC and peer

  std::uint64_t started = 0;           ///< transfers that were ever begun
  std::uint64_t under_way = 0;         ///< of these, those that have neither succeeded nor failed
                                       ///< yet
  std::uint64_t queued = 0;            ///< transfers that could not be posted at once
  std::uint64_t credit_waits = 0;      ///< how often messages had to wait for the peer's receives
  std::uint64_t retries = 0;           ///< repeated attempts to connect
  std::uint64_t endpoints = 0;         ///< endpoints that are connected or ending now
  std::uint64_t endpoints_failed = 0;  ///< all connections that ever failed

  RegistrationCounters registrations;  ///< of the whole process; zeros in a Worker's and an
                                       ///< Endpoint's counters

  /// The bytes of all transfers of this kind that have succeeded.
  [[nodiscard]] HBMWIRE_API std::uint64_t bytes(TransferKind kind) const noexcept;
};

/// The counters that another process, or this one, publishes (HBMWIRE_STATS=yes).
struct PublishedCounters {
  std::uint32_t process = 0;                    ///< its process id
  std::string program;                          ///< its name when it began
  std::chrono::system_clock::time_point since;  ///< when it began to count
  Counters counters;                            ///< sum over all its contexts
};

/// Counters of all contexts of this process. Thread-safe. Errors: Errc::exhausted.
[[nodiscard]] HBMWIRE_API Result<Counters> process_counters();

/// The counters of a process that publishes them, followed from outside. Reading does not disturb
/// the process. The last counts stay readable after the process has ended, even by SIGKILL.
/// Move-only.
class HBMWIRE_API PublishedProcess {
 public:
  PublishedProcess(PublishedProcess&&) noexcept;
  PublishedProcess& operator=(PublishedProcess&&) noexcept;
  PublishedProcess(const PublishedProcess&) = delete;
  PublishedProcess& operator=(const PublishedProcess&) = delete;
  ~PublishedProcess();

  /// The processes of this user that publish their counters, by their ids; root sees all users'.
  /// Errors: Stage::probe (/proc can't be read, or is not mounted).
  static Result<std::vector<PublishedProcess>> find_all();

  /// The process with this id. Errors: Errc::not_found (it does not exist, or does not publish),
  /// Errc::permission_denied (it is another user's).
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

/// The counters of a NIC's ports, from sysfs; empty if the driver has none. Throws std::bad_alloc.
[[nodiscard]] HBMWIRE_API std::vector<NicCounter> nic_counters(std::string_view nic);

}  // namespace hbmwire
