// SPDX-License-Identifier: MIT
#pragma once

#include <rdma/rdma_cma.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "hbmwire/error.hpp"

#include "base/forks.hpp"
#include "verbs/wiring.hpp"

namespace hbmwire::transport {

/// The attributes with which the connection manager connects a queue pair, rdma_init_qp_attr(3).
/// They are for queue pairs on a device that the library has opened itself, not librdmacm.
struct CmPath {
  verbs::AddressPath address;
  std::uint32_t mtu_bytes = 1024;
  std::uint32_t remote_queue_pair = 0;
  std::uint32_t send_sequence = 0;
  std::uint32_t receive_sequence = 0;
};

/// An event of the connection manager, copied and acknowledged.
struct CmEvent {
  rdma_cm_event_type type = RDMA_CM_EVENT_CONNECT_ERROR;
  int status = 0;
  rdma_cm_id* id = nullptr;  ///< of a CONNECT_REQUEST: the new id, for CmId::adopt()
  bool ours = false;         ///< the private data is that of an endpoint of this version
};

/// Destroys objects of librdmacm.
struct CmDestroy {
  void operator()(rdma_event_channel* channel) const noexcept;
  void operator()(rdma_cm_id* id) const noexcept;
};

/// An rdma_cm_id with its own event channel. No function blocks. Errors: Stage::connect, with
/// Hint::rdma_cm. `peer` is the name in errors.
class CmId {
 public:
  CmId(CmId&&) noexcept = default;
  CmId& operator=(CmId&&) noexcept = default;
  CmId(const CmId&) = delete;
  CmId& operator=(const CmId&) = delete;

  /// In a child by fork(2) the kernel's object stays, because it belongs to the parent.
  ~CmId();

  static Result<CmId> create(std::string peer);

  /// Takes over a request from the listening id to which it came.
  static Result<CmId> adopt(rdma_cm_id* request, std::string peer);

  // These begin the calls of librdmacm with the same names. next() tells how they end.

  Result<void> listen(const sockaddr& address);

  /// Sets the traffic class of the route: RDMA_OPTION_ID_TOS of rdma_set_option(3). Call it before
  /// resolve_address().
  Result<void> set_traffic_class(std::uint8_t traffic_class);
  Result<void> resolve_address(const sockaddr& address);
  Result<void> resolve_route();
  Result<void> connect(std::uint32_t queue_pair);
  Result<void> accept(std::uint32_t queue_pair);
  Result<void> establish();
  void reject() noexcept;

  /// The next event; no value if there is none.
  std::optional<CmEvent> next() noexcept;

  /// The path that the connection takes, once the request or its answer has come.
  [[nodiscard]] Result<CmPath> path() const;

  [[nodiscard]] int fd() const noexcept { return channel_->fd; }

  /// The name of the device that the route uses; empty until the address is resolved.
  [[nodiscard]] std::string_view device() const noexcept;

  [[nodiscard]] std::uint8_t device_port() const noexcept { return id_->port_num; }

  [[nodiscard]] std::uint16_t listening_port() const noexcept;

  [[nodiscard]] const sockaddr& local_address() const noexcept {
    return *rdma_get_local_addr(id_.get());
  }

  /// The error of an event that ends the attempt to connect.
  [[nodiscard]] Error failed(const CmEvent& event) const noexcept;
  [[nodiscard]] static std::string name_of_peer(rdma_cm_id* request);

 private:
  CmId() noexcept = default;

  Result<void> check(int result, const char* call) const;

  std::string peer_;
  std::unique_ptr<rdma_event_channel, CmDestroy> channel_;
  std::unique_ptr<rdma_cm_id, CmDestroy> id_;
  MadeHere made_;
};

}  // namespace hbmwire::transport
