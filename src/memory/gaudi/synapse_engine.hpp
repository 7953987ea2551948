// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "hbmwire/memory_domain.hpp"

#include "memory/bounce_pipeline.hpp"
#include "memory/gaudi/synapse.hpp"
#include "memory/pinned_ranges.hpp"

namespace hbmwire::memory::gaudi {

/// The DMA engines of a card that SynapseAI drives. Each slot of the pipeline has its own stream,
/// because synStreamQuery() tells only whether all jobs of a stream are done. The first copy makes
/// streams and pinned memory: a borrowed card may be wanted only for its dma-buf.
class SynapseEngine final : public BouncePipeline::Mover {
 public:
  /// `name` must outlive this object.
  SynapseEngine(std::shared_ptr<Synapse> synapse, std::uint32_t device, std::string_view name)
      : synapse_(std::move(synapse)), device_(device), name_(name) {}

  SynapseEngine(const SynapseEngine&) = delete;
  SynapseEngine& operator=(const SynapseEngine&) = delete;

  /// Waits for copies that are under way, up to a limit. After that it leaves them to the end of
  /// the process.
  ~SynapseEngine() override;

  /// Implement MemoryDomain::pin_host() and unpin_host(). Thread-safe.
  Result<void> pin(std::span<std::byte> memory);
  void unpin(std::span<std::byte> memory) noexcept;

  /// Thread-safe. Errors: Stage::copy.
  Result<PendingCopy> start_in(std::uint64_t address, std::span<const std::byte> from,
                               std::shared_ptr<const void> keep);
  Result<PendingCopy> start_out(std::uint64_t address, std::span<std::byte> to,
                                std::shared_ptr<const void> keep);

  /// Copies within the card.
  Result<PendingCopy> start_within(std::uint64_t from, std::uint64_t to, std::uint64_t bytes,
                                   std::shared_ptr<const void> keep);

 private:
  class Straight;

  void unmap(std::span<std::byte> memory) noexcept;

  /// Copies between addresses that the card reaches, on a stream of its own.
  Result<PendingCopy> start_straight(std::uint64_t from, std::uint64_t to, std::uint64_t bytes,
                                     int direction, std::shared_ptr<const void> keep);

  static constexpr unsigned kSlots = 4;
  // The pinned memory as a whole is so large that a DMA job's start-up time hardly counts. A piece
  // is so small that filling it takes no longer than moving the other pieces.
  static constexpr std::uint64_t kPieceBytes = 2ULL << 20;

  std::byte* memory(unsigned slot) noexcept override;
  Result<void> start(const BouncePipeline::Piece& piece) override;
  Result<bool> poll(unsigned slot) override;
  bool settle(unsigned slot) noexcept override;
  Result<void> prepare();
  Result<SynapseStream> take_stream();
  void give_back(SynapseStream stream) noexcept;

  std::shared_ptr<Synapse> synapse_;
  std::uint32_t device_;
  std::string_view name_;
  std::mutex preparing_;
  std::mutex idle_mutex_;
  std::vector<SynapseStream> idle_;  // for straight copies
  std::size_t made_ = 0;             // streams made for these so far
  PinnedRanges pinned_ranges_;
  void* pinned_ = nullptr;
  std::array<SynapseStream, kSlots> streams_{};
  BouncePipeline pipeline_{*this, kSlots, kPieceBytes};
};

}  // namespace hbmwire::memory::gaudi
