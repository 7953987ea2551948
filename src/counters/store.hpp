// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "hbmwire/error.hpp"
#include "hbmwire/fd.hpp"

#include "base/every_setting.hpp"
#include "counters/block.hpp"

namespace hbmwire::counters {

/// The name of the file that other processes read (memfd_create(2)).
inline constexpr std::string_view kFileName = "hbmwire-counters";

/// All look-ups of a RegistrationCache since its start.
struct LookUps {
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::uint64_t evictions = 0;
};

/// Something that counts its own look-ups.
class LookUpSource {
 public:
  LookUpSource() = default;
  LookUpSource(const LookUpSource&) = delete;
  LookUpSource& operator=(const LookUpSource&) = delete;
  virtual ~LookUpSource() = default;

  /// May take its own locks.
  [[nodiscard]] virtual LookUps look_ups() = 0;
};

/// The blocks of counters of this process. A thread counts in its own blocks without a lock. The
/// Store is asked only when workers, endpoints and contexts begin and end. Thread-safe. If the
/// process publishes its counters, all blocks are in an unnamed file that other processes open by
/// /proc (HBMWIRE_STATS).
class Store {
 public:
  /// The Store of this process. A child by fork(2) has a new one, with nothing counted. May throw
  /// std::bad_alloc.
  static Store& get();

  Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  ~Store();

  /// Registers a context and returns its number. Its settings say whether counters are published
  /// from now on. The settings of the first context say how many peers have their own series.
  /// Errors: Stage::configure (the counters cannot be published).
  Result<std::uint32_t> begin_context(const StatisticsSettings& settings);

  /// The context's counts become those of contexts that have gone.
  void end_context(std::uint32_t context) noexcept;

  /// The number for a new worker.
  [[nodiscard]] static std::uint32_t next_worker() noexcept;
  void end_worker(std::uint32_t worker) noexcept;

  /// A block for the transfers of an endpoint or of a worker. May throw std::bad_alloc.
  TrafficBlock& take_traffic(const Owner& owner, std::string_view nic, std::string_view peer);

  /// The endpoint has ended: its counts are kept under the peer's name. The block may not be used
  /// any more.
  void end_endpoint(TrafficBlock& block) noexcept;

  /// A block for the times of a worker's transfers. May throw std::bad_alloc.
  TimesBlock& take_times(const Owner& owner);

  [[nodiscard]] ProcessBlock& process() noexcept { return *process_; }

  /// Counts the look-ups of `source` from now on, until remove(). May throw std::bad_alloc.
  void add(LookUpSource& source);
  void remove(LookUpSource& source) noexcept;

  /// Writes the sum of all sources into the process's block.
  void put_look_ups() noexcept;

  /// Calls put_look_ups() for readers in other processes: at most a few times a second, and only if
  /// the counters are published.
  void put_look_ups(std::chrono::steady_clock::time_point now) noexcept;

  /// A copy of all blocks as they are now. May throw std::bad_alloc.
  [[nodiscard]] std::vector<std::byte> copy();

 private:
  // Call all of these with the lock.
  template <class Block>
  Block& take(const Owner& owner);
  template <class Block>
  void give_back(Block& block) noexcept;
  // The owner of the block's counts has changed: merges them into those of other blocks.
  void keep(TrafficBlock& block) noexcept;
  void keep(TimesBlock& block) noexcept;
  void keep_all(std::uint32_t Owner::*of, std::uint32_t number) noexcept;
  /// Whether the peer has series of its own. Gives it some if there is room for one more peer.
  [[nodiscard]] bool claim_series(std::string_view peer);
  void grow();
  Result<void> publish();

  ProcessBlock* process_ = nullptr;
  std::atomic<bool> published_{false};

  std::mutex sources_mutex_;  // guards sources_, gone_ and put_
  std::vector<LookUpSource*> sources_;
  LookUps gone_;                               // of sources that were removed
  std::chrono::steady_clock::time_point put_;  // when they were last put for other processes

  std::mutex mutex_;  // guards the members below
  Fd file_;
  std::vector<std::span<std::byte>> segments_;
  std::vector<std::byte*> free_;
  // The blocks that belong to no endpoint. They have room for every block, so that nothing is
  // allocated when an endpoint ends.
  std::vector<TrafficBlock*> traffic_;
  std::vector<TimesBlock*> times_;
  std::vector<std::size_t> peers_;  // hashes of the names of those with their own series
  std::uint64_t most_peers_ = 0;
  bool has_context_ = false;
};

}  // namespace hbmwire::counters
