// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "hbmwire/context.hpp"

#include "base/told_cause.hpp"
#include "endpoint/nic_memory.hpp"
#include "message/unexpected_message.hpp"

namespace hbmwire::detail {

struct WorkerNic;

/// Memory for waiting messages, in units. A message takes adjacent units, since bytes in one piece
/// need one memcpy, or one READ to a device.
class UnexpectedUnits {
 public:
  static constexpr std::uint64_t kUnitBytes = 256;
  static constexpr std::uint32_t kNone = ~0U;

  explicit UnexpectedUnits(std::uint32_t units) : taken_(units) {}

  [[nodiscard]] static std::uint32_t units_for(std::uint64_t bytes) noexcept {
    return static_cast<std::uint32_t>((bytes + kUnitBytes - 1) / kUnitBytes);
  }

  /// The first of `units` adjacent units; kNone if there are not that many side by side.
  std::uint32_t take(std::uint32_t units) noexcept;
  void give_back(std::uint32_t first, std::uint32_t units) noexcept;

  [[nodiscard]] bool all_free() const noexcept { return free_ == taken_.size(); }

 private:
  std::vector<std::uint8_t> taken_;  // one byte for each unit, so that a run is found without
                                     // shifting bits
  std::uint32_t from_ = 0;           // where the next search begins
  std::uint32_t free_ = static_cast<std::uint32_t>(taken_.size());  // how many are free
};

/// Memory that UnexpectedPool allocates at a time.
struct UnexpectedBlock {
  explicit UnexpectedBlock(std::uint32_t count) : units(count), records(count) {}

  NicMemory memory;
  UnexpectedUnits units;
  std::vector<UnexpectedMessage> records;  // the record of a message is at the index of its first
                                           // unit
};

/// Memory that the endpoints of a worker on one NIC share for messages that came before their
/// receives.
class UnexpectedPool {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// `most_bytes`: the limit of the pool. Each message has up to `longest_bytes`.
  UnexpectedPool(const Context& context, const WorkerNic& nic, std::uint64_t most_bytes,
                 std::uint32_t longest_bytes);
  UnexpectedPool(const UnexpectedPool&) = delete;
  UnexpectedPool& operator=(const UnexpectedPool&) = delete;
  ~UnexpectedPool() = default;

  /// Allocates the first block. Errors: Stage::allocate, Stage::register_memory.
  Result<void> begin() { return grow(); }

  /// A record with `units` units of memory at `bytes`. Null: there is no room now, and look_after()
  /// will make the pool grow.
  UnexpectedMessage* take(std::uint32_t units) noexcept;
  void give_back(UnexpectedMessage& message) noexcept;

  /// As take(), but also with memory beyond the limit, for a message that cannot wait elsewhere.
  /// Null: no memory is left. Not on the data path.
  UnexpectedMessage* take_beyond(std::uint32_t units) noexcept;

  /// Grows if the pool was too small, and frees blocks that have not been needed for long. Not on
  /// the data path.
  void look_after(Time at) noexcept;

 private:
  Result<void> grow();       // up to the limit; then does nothing
  Result<void> add_block();  // whatever the limit

  const Context& context_;
  const WorkerNic& nic_;
  std::uint32_t block_units_;
  std::size_t most_blocks_;
  std::vector<std::unique_ptr<UnexpectedBlock>> blocks_;
  Time idle_since_ = Time::max();  // since when the last block is free; max(): it is not
  bool wants_ = false;             // a message found no room
  ToldCause told_;                 // why the pool does not grow
};

}  // namespace hbmwire::detail
