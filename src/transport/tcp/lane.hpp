// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "transport/lane.hpp"

namespace hbmwire::transport {

class TcpLink;

/// One of the two lanes of a TcpLink.
class TcpLane final : public Lane {
 public:
  TcpLane(TcpLink& link, CompletionQueue& completions, bool control);
  TcpLane(const TcpLane&) = delete;
  TcpLane& operator=(const TcpLane&) = delete;
  ~TcpLane() override = default;

  int post(const Operation& operation, std::uint64_t id) noexcept override;
  int post(const Message& message, std::uint64_t id) noexcept override;
  int post(std::span<const Request> chain, bool& begun) noexcept override;
  [[nodiscard]] std::unique_ptr<PreparedChain> prepare(
      std::span<const Request> requests) const override;
  int post(PreparedChain& chain, bool fenced, bool& begun) noexcept override;
  int post_receives(std::span<const Receive> receives, std::size_t& posted) noexcept override;

  [[nodiscard]] std::string_view device() const noexcept override { return "tcp"; }

  Result<void> connect(const verbs::Wiring& /*wiring*/) override { return {}; }

  Result<void> to_error() override;

  [[nodiscard]] bool in_error() const noexcept override { return false; }

  void cut() noexcept override;

  Result<void> restart() override { return {}; }

  Result<void> connect_again() override { return {}; }

 private:
  int post_chain(std::span<const Request> chain, bool fenced, bool& begun) noexcept;

  TcpLink& link_;
  bool control_;
};

}  // namespace hbmwire::transport
