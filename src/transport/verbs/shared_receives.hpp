// SPDX-License-Identifier: MIT
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <string_view>

#include "transport/lane.hpp"
#include "verbs/nic_state.hpp"

namespace hbmwire::transport {

/// A shared receive queue: each message that arrives on one of its lanes takes the next receive.
class SharedReceives final : public ReceiveQueue {
 public:
  /// For `depth` receives, or as many as one queue of the NIC can hold. Errors: Stage::open.
  static Result<std::unique_ptr<SharedReceives>> create(std::shared_ptr<detail::NicState> nic,
                                                        std::uint32_t depth);
  SharedReceives(const SharedReceives&) = delete;
  SharedReceives& operator=(const SharedReceives&) = delete;
  ~SharedReceives() override = default;

  [[nodiscard]] ibv_srq* get() const noexcept { return srq_.get(); }

  [[nodiscard]] std::uint32_t depth() const noexcept { return depth_; }

  int post_receives(std::span<const Receive> receives, std::size_t& posted) noexcept override;

  [[nodiscard]] std::string_view device() const noexcept override { return nic_->info.name; }

 private:
  SharedReceives(std::shared_ptr<detail::NicState> nic, verbs::Srq srq,
                 std::uint32_t depth) noexcept
      : nic_(std::move(nic)), srq_(std::move(srq)), depth_(depth) {}

  std::shared_ptr<detail::NicState> nic_;
  verbs::Srq srq_;
  std::uint32_t depth_;
};

}  // namespace hbmwire::transport
