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

/// Copies between host memories of two processes of a node: this end's CPU copies, in pieces,
/// without the peer's process (docs/adr/0029).
class SharedMover : public EngineMover {
 public:
  using EngineMover::EngineMover;

  /// Opens the peer's memory. If that fails, the log says why, and its memory goes by the next best
  /// path.
  void connect(const wire::EndpointOffer& theirs);

  /// The number that Neighbour::find() gives for a key of the peer; 0: this end does not reach the
  /// memory.
  std::uint32_t find(MemoryType type, std::uint64_t token);

  /// Whether this end's CPU copies between the two memories.
  [[nodiscard]] bool reaches(const RegionState& local,
                             const RemoteRegionState& distant) const noexcept;

  /// The peer's process. Call it only if this end reaches() any memory of the peer.
  [[nodiscard]] transport::Neighbour& neighbour() const noexcept { return *neighbour_; }

  [[nodiscard]] bool takes(const EndpointState& endpoint, const Move& move) const override;

  [[nodiscard]] bool needs_nic(const EndpointState& /*endpoint*/,
                               const Move& /*move*/) const override {
    return false;
  }

  Result<void> start(TransferState& transfer, transport::Operation& operation,
                     const Move& move) override;

  /// Lets SharedReads get the bytes of a large message for `transfer`, a receive into host memory.
  /// False: this end does not reach the sender's memory by `key` (wire::MessageHeader::shared_key).
  bool pull(TransferState& transfer, std::uint32_t key, std::uint64_t address) noexcept;

  /// Whether it reaches() both memories, and can copy the bytes within the call: there are few, and
  /// nothing else of the endpoint is under way.
  [[nodiscard]] bool is_at_once(const RegionState& local, const RemoteRegionState& distant,
                                std::uint64_t length_bytes) const noexcept;

  /// Copies within the call: the transfer is over. Errors: no transfer is left.
  Result<Transfer> copy_at_once(const transport::Operation& operation, const Move& move) noexcept;

  /// Why the peer's memory, or a part of it, is not reached; nothing: all of it is.
  [[nodiscard]] const std::optional<Error>& refusal() const noexcept { return refusal_; }

  /// Called regularly by the clock.
  void look() noexcept;

 private:
  void begin(Job& job) noexcept override;
  bool has_ended(Job& job) noexcept override;

  void wait() noexcept override {}

  std::unique_ptr<transport::Neighbour> neighbour_;  // null: the peer's memory is not reached
  unsigned at_once_ = 0;
  std::uint64_t copied_bytes_ = 0;  // bytes of the job
  std::optional<Error> refusal_;
  ToldCause told_;
};

/// Reads that receive large messages. They do not wait in the endpoint's queue, and overtake it.
class SharedReads final : public SharedMover {
 public:
  using SharedMover::SharedMover;

 private:
  [[nodiscard]] bool is_behind_fence() const noexcept override { return false; }
};

}  // namespace hbmwire::detail
