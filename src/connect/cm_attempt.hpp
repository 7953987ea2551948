// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <string_view>

#include "connect/cm_link.hpp"
#include "connect/connection_attempt.hpp"
#include "endpoint/sockets.hpp"
#include "transport/rdma_cm/cm_id.hpp"
#include "wire/resolve.hpp"

namespace hbmwire::detail {

struct ListenerState;

inline constexpr std::string_view kCmScheme = "rdma_cm://";

/// A handshake by the RDMA connection manager, in two steps. First the manager connects the control
/// lane, since its private data has no room for offers. Then the handshake goes by that lane, and
/// the data lane takes the path that the manager found.
class CmAttempt final : public ConnectionAttempt, public SocketOwner, public ShakeTaker {
 public:
  /// Connects to one of `addresses`, which `where` names. Errors: Stage::connect.
  static Result<std::unique_ptr<CmAttempt>> dial(const std::shared_ptr<WorkerState>& worker,
                                                 std::string_view where,
                                                 wire::AddressWalk addresses,
                                                 const EndpointOptions& options);

  /// Begins the handshake with a peer whose request came to a listening id.
  static Result<std::unique_ptr<CmAttempt>> welcome(const std::shared_ptr<WorkerState>& worker,
                                                    const transport::CmEvent& request,
                                                    const EndpointOptions& options);

  /// Rejects a request of another protocol. Returns the error to report.
  static Error turn_away(const transport::CmEvent& request);

  CmAttempt(const CmAttempt&) = delete;
  CmAttempt& operator=(const CmAttempt&) = delete;
  ~CmAttempt() override;

  void on_socket() noexcept override;
  void on_shake(std::span<const std::byte> bytes) noexcept override;
  void look_after() noexcept override;
  void give_up() noexcept override;
  [[nodiscard]] Error timed_out() const noexcept override;

 private:
  using ConnectionAttempt::ConnectionAttempt;

  Result<void> dial_next();
  Result<void> on_event(const transport::CmEvent& event);
  void fail(const Error& why) noexcept;
  Result<void> make_endpoint();
  Result<void> wire_control();
  void advance();
  void end(const Error& why) noexcept;

  wire::AddressWalk addresses_;
  std::optional<transport::CmId> id_;
  bool watched_ = false;
  unsigned disconnected_ = 0;  // 0: not disconnected; else the number of looks since then
};

/// A listening port of the RDMA connection manager.
struct CmPort final : SocketOwner {
  explicit CmPort(ListenerState& listener_of, transport::CmId id_of)
      : listener(listener_of), id(std::move(id_of)) {}

  void on_socket() noexcept override;

  ListenerState& listener;
  transport::CmId id;
};

}  // namespace hbmwire::detail
