// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "endpoint/sockets.hpp"
#include "transport/tcp/link.hpp"
#include "transport/tcp/user.hpp"

namespace hbmwire::detail {

struct EndpointState;
class TcpPort;

/// The endpoint, as its TcpLink sees it.
class EndpointTcpUser final : public transport::TcpUser, private SocketOwner {
 public:
  EndpointTcpUser(TcpPort& port, EndpointState& endpoint) noexcept
      : port_(port), endpoint_(endpoint) {}

  EndpointTcpUser(const EndpointTcpUser&) = delete;
  EndpointTcpUser& operator=(const EndpointTcpUser&) = delete;
  ~EndpointTcpUser() = default;

  /// Makes the link, which neither this object nor the endpoint may outlive. May throw
  /// std::bad_alloc.
  [[nodiscard]] std::unique_ptr<transport::TcpLink> make_link(
      const transport::TcpLink::Depths& depths);

  [[nodiscard]] const std::string& peer() const noexcept override;
  Result<void> watch(int fd) override;
  void watch_room(bool wanted) noexcept override;
  void stop_watching() noexcept override;
  void note_event() noexcept override;
  void look_soon() noexcept override;
  void begin_engine() noexcept override;
  void end_engine() noexcept override;
  [[nodiscard]] std::optional<transport::TcpWindow> window(
      std::uint64_t key) const noexcept override;
  void lose_window(std::uint64_t key, const Error& why) noexcept override;
  [[nodiscard]] std::byte* take_piece(MemoryDomain* device) noexcept override;
  void give_back(std::byte* piece) noexcept override;

 private:
  void on_socket() noexcept override { link_->progress(); }

  TcpPort& port_;
  EndpointState& endpoint_;
  transport::TcpLink* link_ = nullptr;
  int fd_ = -1;
  std::uint32_t watched_ = 0;  // epoll events
};

}  // namespace hbmwire::detail
