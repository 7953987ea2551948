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

/// The name of the file that others read (memfd_create(2)).
inline constexpr std::string_view kFileName = "hbmwire-counters";

/// Look-ups of a RegistrationCache, ever.
struct LookUps {
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::uint64_t evictions = 0;
};

/// Something that counts look-ups for itself.
class LookUpSource {
 public:
  LookUpSource() = default;
  LookUpSource(const LookUpSource&) = delete;
  LookUpSource& operator=(const LookUpSource&) = delete;
  virtual ~LookUpSource() = default;

  /// May take its locks.
  [[nodiscard]] virtual LookUps look_ups() = 0;
};

/// The blocks of this process. They are made by the thread that will count in them, which needs no
/// lock for that; this is asked when workers, endpoints and contexts begin and end. Thread-safe.
/// Where the process publishes its counters, all blocks lie in a file without a name that other
/// processes open by /proc (HBMWIRE_STATS).
class Store {
 public:
  /// This process' one. A child by fork(2) has a new one, with nothing counted. May throw
  /// std::bad_alloc.
  static Store& get();

  Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  ~Store();

  /// A context begins: its number. Its settings say whether counters are published from here on,
  /// and those of the first one how many peers have series of their own. Errors: Stage::configure:
  /// they can't be published.
  Result<std::uint32_t> begin_context(const StatisticsSettings& settings);

  /// Its counts become those of contexts that have gone.
  void end_context(std::uint32_t context) noexcept;

  /// A worker begins: its number.
  [[nodiscard]] static std::uint32_t next_worker() noexcept;
  void end_worker(std::uint32_t worker) noexcept;

  /// A block for an endpoint's transfers, or a worker's. May throw std::bad_alloc.
  TrafficBlock& take_traffic(const Owner& owner, std::string_view nic, std::string_view peer);

  /// The endpoint ends: its counts are kept under the peer's name. Nothing may count in it any
  /// more.
  void end_endpoint(TrafficBlock& block) noexcept;

  /// For the times of a worker's transfers. May throw std::bad_alloc.
  TimesBlock& take_times(const Owner& owner);

  [[nodiscard]] ProcessBlock& process() noexcept { return *process_; }

  /// From here on its look-ups are counted, until remove(). May throw std::bad_alloc.
  void add(LookUpSource& source);
  void remove(LookUpSource& source) noexcept;

  /// Puts the sum of all sources into the process' block.
  void put_look_ups() noexcept;

  /// The same, for other processes that look: a few times a second, and only where one may.
  void put_look_ups(std::chrono::steady_clock::time_point now) noexcept;

  /// All blocks, as they are now. May throw std::bad_alloc.
  [[nodiscard]] std::vector<std::byte> copy();

 private:
  // All with the lock.
  template <class Block>
  Block& take(const Owner& owner);
  template <class Block>
  void give_back(Block& block) noexcept;
  void keep(TrafficBlock& block) noexcept;
  void keep(TimesBlock& block) noexcept;
  void keep_all(std::uint32_t Owner::*of, std::uint32_t number) noexcept;
  [[nodiscard]] bool is_counted_alone(std::string_view peer);
  void grow();
  Result<void> publish();

  ProcessBlock* process_ = nullptr;
  std::atomic<bool> published_{false};

  std::mutex sources_mutex_;  // for what the sources say
  std::vector<LookUpSource*> sources_;
  LookUps gone_;
  std::chrono::steady_clock::time_point put_;  // when they were last put

  std::mutex mutex_;  // for all that follows
  Fd file_;
  std::vector<std::span<std::byte>> segments_;
  std::vector<std::byte*> free_;
  // The blocks that no endpoint counts in, with room for every block, so that nothing is allocated
  // when one ends.
  std::vector<TrafficBlock*> traffic_;
  std::vector<TimesBlock*> times_;
  std::vector<std::size_t> peers_;  // hashes of their names
  std::uint64_t most_peers_ = 0;
  bool has_context_ = false;
};

}  // namespace hbmwire::counters
