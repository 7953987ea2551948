// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/told_cause.hpp"
#include "mover/engine_mover.hpp"
#include "transport/shared/neighbour.hpp"
#include "wire/endpoint_offer.hpp"

namespace hbmwire::detail {

/// Between host memories of two processes of a node: this end's CPU copies, in pieces, without the
/// peer's process (docs/adr/0029).
class SharedMover : public EngineMover {
 public:
  using EngineMover::EngineMover;

  /// Finds the peer's memory. Where that can't be, the log says why, and its memory goes by its
  /// next way.
  void connect(const wire::EndpointOffer& theirs);

  /// Neighbour::find() of a key of the peer's; 0: this end does not reach its memory.
  std::uint32_t find(MemoryType type, std::uint64_t token);

  /// Whether this end's CPU copies between the two memories.
  [[nodiscard]] bool reaches(const RegionState& local,
                             const RemoteRegionState& distant) const noexcept;

  /// Where it reaches() one.
  [[nodiscard]] transport::Neighbour& neighbour() const noexcept { return *neighbour_; }

  [[nodiscard]] bool takes(const EndpointState& endpoint, const Move& move) const override;

  [[nodiscard]] bool needs_nic(const EndpointState& /*endpoint*/,
                               const Move& /*move*/) const override {
    return false;
  }

  Result<void> start(TransferState& transfer, transport::Operation& operation,
                     const Move& move) override;

  /// Has `reads` get the bytes of a large message for `transfer`, a receive of host memory. False:
  /// this end does not reach the sender's memory by `key` (wire::MessageHeader::shared_key).
  bool pull(TransferState& transfer, std::uint32_t key, std::uint64_t address) noexcept;

  /// Whether it reaches() them, and so few bytes can be copied within the call: nothing else of the
  /// endpoint is under way.
  [[nodiscard]] bool is_at_once(const RegionState& local, const RemoteRegionState& distant,
                                std::uint64_t length_bytes) const noexcept;

  /// Copies: the transfer is over. Errors: there is none left.
  Result<Transfer> copy_at_once(const transport::Operation& operation, const Move& move) noexcept;

  /// Why the peer's memory is not reached, or what of it; none: all is.
  [[nodiscard]] const std::optional<Error>& refusal() const noexcept { return refusal_; }

  /// By the clock.
  void look() noexcept;

 private:
  void begin(Job& job) noexcept override;
  bool has_ended(Job& job) noexcept override;

  void wait() noexcept override {}

  std::unique_ptr<transport::Neighbour> neighbour_;  // null: the peer's memory is not reached
  unsigned at_once_ = 0;
  std::uint64_t copied_bytes_ = 0;  // of the job
  std::optional<Error> refusal_;
  ToldCause told_;
};

/// The reads by which large messages are received: beside the endpoint's queue, and before it.
class SharedReads final : public SharedMover {
 public:
  using SharedMover::SharedMover;

 private:
  [[nodiscard]] bool is_behind_fence() const noexcept override { return false; }
};

}  // namespace hbmwire::detail
