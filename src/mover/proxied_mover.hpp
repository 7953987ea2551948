// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>

#include "mover/mover.hpp"
#include "registration/memory_key_state.hpp"
#include "wire/message_header.hpp"

namespace hbmwire::detail {

/// Memory of the peer that no NIC of its machine reaches. The peer's process moves the bytes, when
/// a put or get asks it to (StagedServer). One transfer is under way at a time, at the head of the
/// endpoint's queue. StagedJob asks for its pieces by the same messages.
class ProxiedMover final : public Mover {
 public:
  explicit ProxiedMover(EndpointState& endpoint) noexcept : endpoint_(endpoint) {}

  [[nodiscard]] bool takes(const EndpointState& endpoint, const Move& move) const override;
  Result<void> start(TransferState& transfer, transport::Operation& operation,
                     const Move& move) override;
  bool advance(TransferState& transfer) noexcept override;
  bool finish(TransferState& transfer) noexcept override;
  bool on_answer(TransferState& transfer, const wire::MessageHeader& answer) noexcept override;
  void cancel(EndpointState& endpoint) noexcept override;

  /// Checks `region`. Errors: it is not of this connection, or does not support operations with
  /// this access.
  Result<void> check(const RemoteRegionState& region, Access needed) const;

  /// Whether ask() has room for a question now, and a receive for its answer.
  [[nodiscard]] bool may_ask() noexcept;

  /// Asks the peer to move `part`, to or from the memory that `token` names. The peer may reach
  /// this end's memory by `remote_key`. Returns an id of Slots; 0: the endpoint has failed.
  std::uint32_t ask(TransferState& transfer, const transport::Operation& part, std::uint64_t token,
                    std::uint32_t remote_key) noexcept;

  /// The peer has answered ask().
  void on_finished(TransferState& transfer, const wire::MessageHeader& answer) noexcept;

  /// The error of an operation that the peer's process did not carry out.
  [[nodiscard]] Error refusal_of(wire::MessageHeader::Outcome outcome) const noexcept;

 private:
  void begin(TransferState& transfer) noexcept;
  [[nodiscard]] Result<std::uint32_t> key_for_peer(TransferState& transfer);

  EndpointState& endpoint_;
  std::unique_ptr<MemoryKeyState> key_;  // made for the transfer that is under way
};

}  // namespace hbmwire::detail
