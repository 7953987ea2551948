// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <span>

#include "endpoint/sockets.hpp"
#include "transport/rdma_cm/cm_id.hpp"

namespace hbmwire::detail {

struct EndpointState;
struct WorkerState;

/// Takes the handshake of an endpoint whose control lane the connection manager connected: its
/// bytes come by that lane.
class ShakeTaker {
 public:
  virtual void on_shake(std::span<const std::byte> bytes) noexcept = 0;

 protected:
  ShakeTaker() = default;
  ShakeTaker(const ShakeTaker&) = default;
  ShakeTaker& operator=(const ShakeTaker&) = default;
  ~ShakeTaker() = default;
};

/// An endpoint's connection of the connection manager. It tells when the peer's process has gone,
/// as a TCP socket does.
class CmLink final : public SocketOwner {
 public:
  /// `id` is in the worker's set already; it has another owner until now.
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
