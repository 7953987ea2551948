// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <deque>

#include "hbmwire/nic.hpp"

#include "wire/message_header.hpp"

namespace hbmwire::detail {

struct EndpointState;
class StagedJob;

/// The peer asks this process to move bytes.
struct ServeRequest {
  [[nodiscard]] Access needed() const noexcept {
    return header.kind == wire::MessageHeader::Kind::put ? Access::remote_write
                                                         : Access::remote_read;
  }

  wire::MessageHeader header;
  std::uint64_t at = 0;  // the address in this process' memory
};

/// Requests of one endpoint's peer that this process moves bytes (ProxiedMover), in their order.
class StagedServer {
 public:
  explicit StagedServer(EndpointState& endpoint) : endpoint_(endpoint) {}

  StagedServer(const StagedServer&) = delete;
  StagedServer& operator=(const StagedServer&) = delete;
  ~StagedServer() = default;

  /// Whether the peer has asked for something that is not over.
  [[nodiscard]] bool is_busy() const noexcept { return serving_ != 0 || !requests_.empty(); }

  /// The peer asks for memory from `at` on.
  void on_request(const wire::MessageHeader& header, std::uint64_t at) noexcept;

  /// Drives all requests, and answers those that are over.
  void advance() noexcept;

  /// A job of this endpoint is over.
  void on_over(const StagedJob& job) noexcept;

  /// The endpoint ends: drops requests that have not begun.
  void cancel() noexcept { requests_.clear(); }

 private:
  void answer(std::uint32_t id, wire::MessageHeader::Outcome outcome,
              std::uint64_t length) noexcept;

  EndpointState& endpoint_;
  std::deque<ServeRequest> requests_;  // as many as the peer has credits
  std::uint32_t serving_ = 0;          // requests that StagedMover has
};

}  // namespace hbmwire::detail
