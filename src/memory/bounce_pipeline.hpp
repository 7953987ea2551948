// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "hbmwire/memory.hpp"
#include "hbmwire/memory_domain.hpp"

namespace hbmwire::memory {

/// Copies between host and device through pieces of pinned host memory, several pieces at a time.
/// Copies are done one after the other, in the order in which they were started. Polling one copy
/// also drives all copies before it. Thread-safe.
class BouncePipeline {
 public:
  enum class Direction : std::uint8_t { in, out };  ///< into the device, out of it

  /// A part of a copy, which goes through the pinned memory of one slot.
  struct Piece {
    unsigned slot = 0;
    Direction direction = Direction::in;
    std::uint64_t address = 0;  ///< in the device
    std::uint64_t length_bytes = 0;
  };

  /// Moves the pieces, for example a device's engine. One thread at a time calls it; its functions
  /// never block.
  class Mover {
   public:
    Mover() = default;
    Mover(const Mover&) = delete;
    Mover& operator=(const Mover&) = delete;
    virtual ~Mover() = default;

    /// The pinned memory of a slot.
    virtual std::byte* memory(unsigned slot) noexcept = 0;

    virtual Result<void> start(const Piece& piece) = 0;

    /// Whether the slot's piece has been moved. After an error, settle() is called.
    virtual Result<bool> poll(unsigned slot) = 0;

    /// Whether the device can no longer touch the slot's memory. Called again until it returns
    /// true.
    virtual bool settle(unsigned slot) noexcept = 0;
  };

  /// `mover` must outlive this object.
  BouncePipeline(Mover& mover, unsigned slots, std::uint64_t piece_bytes)
      : mover_(mover), piece_bytes_(piece_bytes), slots_(slots) {}

  BouncePipeline(const BouncePipeline&) = delete;
  BouncePipeline& operator=(const BouncePipeline&) = delete;
  ~BouncePipeline();

  /// The first pieces are under way when it returns. The copy holds `keep` until it ends; `keep`
  /// must keep this object alive.
  Result<PendingCopy> start_in(std::uint64_t address, std::span<const std::byte> from,
                               std::shared_ptr<const void> keep);
  Result<PendingCopy> start_out(std::uint64_t address, std::span<std::byte> to,
                                std::shared_ptr<const void> keep);

  /// Waits until nothing is under way, including copies that were given up. Returns false if the
  /// deadline has passed.
  bool drain(const Deadline& deadline);

 private:
  class Copy;

  /// A copy, which moves in pieces. Slots and the caller's Copy share it.
  struct Job {
    Direction direction = Direction::in;
    std::uint64_t address = 0;
    const std::byte* from = nullptr;
    std::byte* to = nullptr;
    std::uint64_t size_bytes = 0;
    std::uint64_t started_bytes = 0;
    std::uint64_t moved_bytes = 0;
    bool given_up = false;  // the host's bytes may not be touched any more
    std::optional<Error> error;

    [[nodiscard]] bool complete() const noexcept { return moved_bytes == size_bytes; }
  };

  /// Pinned memory for one piece, and the job of that piece. After an error it is `settling` until
  /// the device surely leaves the memory alone.
  struct Slot {
    enum class State : std::uint8_t { idle, moving, settling } state = State::idle;
    std::shared_ptr<Job> job;
    std::uint64_t offset_bytes = 0;  // the piece's place in the host's bytes
    std::uint64_t length_bytes = 0;
  };

  Result<PendingCopy> start(const std::shared_ptr<Job>& job, std::shared_ptr<const void> keep);
  Result<bool> poll(Job& job);
  void give_up(const std::shared_ptr<Job>& job) noexcept;

  // Call these with the lock held.
  void drive();
  void collect(unsigned slot);
  void start_pieces(const std::shared_ptr<Job>& job);
  [[nodiscard]] bool others_under_way(const Job& job) const noexcept;

  Mover& mover_;
  std::uint64_t piece_bytes_;
  std::mutex mutex_;
  std::vector<Slot> slots_;
  std::deque<std::shared_ptr<Job>> jobs_;  // incomplete; only the first one has pieces under way
};

}  // namespace hbmwire::memory
