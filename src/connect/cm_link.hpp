// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <span>

#include "endpoint/sockets.hpp"
#include "transport/rdma_cm/cm_id.hpp"

namespace hbmwire::detail {

struct EndpointState;
struct WorkerState;

/// Who takes the handshake of an endpoint that the connection manager wired up: its bytes come by
/// the control lane.
class ShakeTaker {
 public:
  virtual void on_shake(std::span<const std::byte> bytes) noexcept = 0;

 protected:
  ShakeTaker() = default;
  ShakeTaker(const ShakeTaker&) = default;
  ShakeTaker& operator=(const ShakeTaker&) = default;
  ~ShakeTaker() = default;
};

/// The connection manager's end of an endpoint: tells when the peer's process has gone, as a TCP
/// socket does.
class CmLink final : public SocketOwner {
 public:
  /// Watched already, by somebody else.
  CmLink(WorkerState& worker, EndpointState& endpoint, transport::CmId id) noexcept;
  CmLink(const CmLink&) = delete;
  CmLink& operator=(const CmLink&) = delete;
  ~CmLink();

  void on_socket() noexcept override;

 private:
  WorkerState& worker_;
  EndpointState& endpoint_;
  transport::CmId id_;
};

}  // namespace hbmwire::detail
