// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "base/told_cause.hpp"
#include "mover/engine_mover.hpp"
#include "wire/control_messages.hpp"

namespace hbmwire::detail {

/// Between two processes of a node: the peer's opens this end's memory, and its engine or CPU
/// copies (docs/adr/0025). The peer's process says when it has; where that says nothing any more,
/// its end, or EndpointOptions::peer_timeout, bounds it.
class IpcMover final : public EngineMover {
 public:
  using EngineMover::EngineMover;
  using Clock = std::chrono::steady_clock;

  /// Whether memory of the peer's, reached by `path` else, may be copied by its engine or CPU.
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

  /// So many the peer was asked for, ever.
  [[nodiscard]] std::uint32_t count() const noexcept { return count_; }

  /// The peer asks for a copy. Throws std::bad_alloc.
  void on(const wire::IpcCopy& message);

  /// The peer's answer.
  void on(const wire::IpcCopied& answer) noexcept;

  /// IpcServer has begun, or ended, what the peer asks for.
  void serve(bool serves) noexcept { serves_ = serves; }

  [[nodiscard]] bool serves() const noexcept { return serves_; }

  /// Logs why a peer's copy does not take place: once for each cause, and not for ever, since it
  /// is the peer who says how often.
  void log_refused(const char* what, const Error& why);

  /// Tries it again after a refusal, for tests.
  void forget_refusal() noexcept { refused_ = false; }

 private:
  void begin(Job& job) noexcept override;
  bool has_ended(Job& job) noexcept override;

  void wait() noexcept override { asked_ = 0; }

  [[nodiscard]] bool is_given_up() const noexcept override { return given_up_.has_value(); }

  [[nodiscard]] bool peer_moves(Path path) const noexcept;
  [[nodiscard]] bool is_wanted(std::uint64_t bytes, MemoryType type,
                               const RemoteRegionState& distant) const;
  [[nodiscard]] bool has_other_route(const Move& move) const;
  void refuse(Job& job, const Error& why) noexcept;
  void fall_back(TransferState& transfer, const Error& why) noexcept;
  [[nodiscard]] bool is_over_for_sure(Clock::time_point at) const noexcept;

  bool refused_ = false;  // by either end: what has another way takes that
  bool serves_ = false;   // IpcServer has something of the peer's
  std::uint32_t count_ = 0;
  std::uint32_t asked_ = 0;        // wire::IpcCopy::id, until it is answered
  std::optional<Error> given_up_;  // nothing was copied, and nothing will be by this way
  ToldCause told_;                 // why a peer's memory was not opened, or not copied
};

}  // namespace hbmwire::detail
