// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "base/told_cause.hpp"
#include "mover/engine_mover.hpp"
#include "wire/control_messages.hpp"

namespace hbmwire::detail {

/// Copies between two processes of a node by the peer: its process opens this end's memory, and its
/// engine or CPU copies (docs/adr/0025). The peer's process says when the copy is done. If it never
/// answers, the end of that process bounds the wait, or EndpointOptions::peer_timeout.
class IpcMover final : public EngineMover {
 public:
  using EngineMover::EngineMover;
  using Clock = std::chrono::steady_clock;

  /// Whether the peer's engine or CPU may copy memory that is otherwise reached by `path`.
  [[nodiscard]] bool may_share(MemoryType type, Path path) const noexcept;

  [[nodiscard]] bool takes(const EndpointState& endpoint, const Move& move) const override;

  [[nodiscard]] std::uint64_t asked_from() const noexcept override;

  [[nodiscard]] bool needs_nic(const EndpointState& /*endpoint*/, const Move& move) const override {
    return has_other_route(move);
  }

  Result<void> start(TransferState& transfer, transport::Operation& operation,
                     const Move& move) override;
  bool advance(TransferState& transfer) noexcept override;
  void cancel(EndpointState& endpoint) noexcept override;

  /// Whether the peer was asked for a copy, and has not answered.
  [[nodiscard]] bool asks() const noexcept { return asked_ != 0; }

  /// How many copies the peer was asked for.
  [[nodiscard]] std::uint32_t count() const noexcept { return count_; }

  /// The peer asks this end for a copy. Throws std::bad_alloc.
  void on(const wire::IpcCopy& message);

  /// The peer has answered.
  void on(const wire::IpcCopied& answer) noexcept;

  /// IpcServer has begun, or ended, a copy for the peer.
  void set_serving(bool serves) noexcept { serves_ = serves; }

  [[nodiscard]] bool serves() const noexcept { return serves_; }

  /// Logs why a copy for the peer does not take place. Each cause is logged once, and the number of
  /// causes is bounded, since the peer decides how often it asks.
  void log_refused(const char* what, const Error& why);

  /// Allows IPC again after a refusal; for tests.
  void forget_refusal() noexcept { refused_ = false; }

 private:
  void begin(Job& job) noexcept override;
  bool has_ended(Job& job) noexcept override;

  // The peer's engine cannot be waited for: only its answer could tell.
  void wait() noexcept override { asked_ = 0; }

  [[nodiscard]] bool is_given_up() const noexcept override { return given_up_.has_value(); }

  [[nodiscard]] bool peer_moves(Path path) const noexcept;
  [[nodiscard]] bool is_wanted(std::uint64_t bytes, MemoryType type,
                               const RemoteRegionState& distant) const;
  [[nodiscard]] bool has_other_route(const Move& move) const;
  void refuse(Job& job, const Error& why) noexcept;
  void fall_back(TransferState& transfer, const Error& why) noexcept;
  [[nodiscard]] bool is_over_for_sure(Clock::time_point at) const noexcept;

  bool refused_ = false;  // by either end: transfers with another path take that
  bool serves_ = false;   // IpcServer has a copy for the peer
  std::uint32_t count_ = 0;
  std::uint32_t asked_ = 0;        // wire::IpcCopy::id until the answer comes
  std::optional<Error> given_up_;  // why: nothing was copied, and IPC will not copy it
  ToldCause told_;                 // why the peer's memory was not opened, or not copied
};

}  // namespace hbmwire::detail
