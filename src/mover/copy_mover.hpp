// SPDX-License-Identifier: MIT
#pragma once

#include <optional>

#include "hbmwire/memory_key.hpp"

#include "mover/engine_mover.hpp"
#include "registration/exports.hpp"

namespace hbmwire::detail {

/// Copies between two memories of one process by a device's engine, without a NIC.
class CopyMover final : public EngineMover {
 public:
  using EngineMover::EngineMover;

  /// The remote region for a key of this process, if an engine copies to or from it; otherwise
  /// nothing.
  [[nodiscard]] std::optional<RemoteRegionState> region_of(const MemoryKeyInfo& key) const;

  [[nodiscard]] bool takes(const EndpointState& endpoint, const Move& move) const override;

  [[nodiscard]] bool needs_nic(const EndpointState& /*endpoint*/,
                               const Move& /*move*/) const override {
    return false;
  }

  Result<void> start(TransferState& transfer, transport::Operation& operation,
                     const Move& move) override;

 private:
  void begin(Job& job) noexcept override;
  bool has_ended(Job& job) noexcept override;

  void wait() noexcept override { hold_.reset(); }

  [[nodiscard]] Result<void> check_flush(const Job& job) const override;

  std::optional<ExportHold> hold_;  // has the copy
};

}  // namespace hbmwire::detail
