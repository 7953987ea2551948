// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "transport/lane.hpp"
#include "transport/verbs/completion_queue.hpp"

namespace hbmwire::transport {

/// Takes the place of a VerbsLane until its queue pair is made. Requests can be prepared for it,
/// but not posted. Its address is that of the port, without a queue pair.
class LateLane final : public Lane {
 public:
  /// The queue pair's number in an offer: no real connection can have it
  /// (EndpointOffer::is_late()).
  static constexpr std::uint32_t kNoQueuePair = 1;

  /// Reserves `places` of `completions` for the queue pair. Errors: those of
  /// verbs::port_entries().
  static Result<std::unique_ptr<LateLane>> create(const Nic& nic, VerbsCompletionQueue& completions,
                                                  int places, const LinkOptions& link);
  LateLane(const LateLane&) = delete;
  LateLane& operator=(const LateLane&) = delete;

  ~LateLane() override { queue_.give_back(places_); }

  int post(const Operation& operation, std::uint64_t id) noexcept override;
  int post(const Message& message, std::uint64_t id) noexcept override;
  int post(std::span<const Request> chain, bool& begun) noexcept override;
  [[nodiscard]] std::unique_ptr<PreparedChain> prepare(
      std::span<const Request> requests) const override;
  int post(PreparedChain& chain, bool fenced, bool& begun) noexcept override;
  int post_receives(std::span<const Receive> receives, std::size_t& posted) noexcept override;

  [[nodiscard]] std::string_view device() const noexcept override { return nic_->info.name; }

  Result<void> connect(const verbs::Wiring& /*wiring*/) override { return {}; }

  Result<void> to_error() override { return {}; }

  [[nodiscard]] bool in_error() const noexcept override { return false; }

  void cut() noexcept override {}

  Result<void> restart() override { return {}; }

  Result<void> connect_again() override { return {}; }

 private:
  LateLane(const Nic& nic, VerbsCompletionQueue& completions, int places);

  std::shared_ptr<detail::NicState> nic_;
  VerbsCompletionQueue& queue_;
  int places_;
};

}  // namespace hbmwire::transport
