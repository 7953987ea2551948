// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transport/lane.hpp"

namespace hbmwire::test {

/// Two connected data lanes of this process and memory of either's. `near` posts, and reaches the
/// memory of `far`.
class LanePair {
 public:
  static constexpr std::uint32_t kDepth = 16;
  static constexpr std::uint64_t kBytes = 1U << 20U;

  LanePair() = default;
  LanePair(const LanePair&) = delete;
  LanePair& operator=(const LanePair&) = delete;
  virtual ~LanePair() = default;

  std::unique_ptr<transport::Lane> near;
  std::unique_ptr<transport::Lane> far;

  [[nodiscard]] virtual transport::CompletionQueue& near_queue() = 0;
  [[nodiscard]] virtual transport::CompletionQueue& far_queue() = 0;

  [[nodiscard]] virtual std::span<std::byte> near_bytes() = 0;
  [[nodiscard]] virtual std::span<std::byte> far_bytes() = 0;

  /// The keys of near_bytes() and far_bytes(), as their own lane names them.
  [[nodiscard]] virtual std::uint32_t near_key() = 0;
  [[nodiscard]] virtual std::uint32_t far_key() = 0;

  /// The key of far_bytes(), as `near` names them.
  [[nodiscard]] virtual std::uint32_t remote_key() = 0;

  /// The carrier of the lanes goes.
  virtual void tear_down(bool far_first) = 0;
};

struct LaneWay {
  std::string name;
  std::unique_ptr<LanePair> (*make)();
};

/// Each implementation of transport::Lane.
[[nodiscard]] std::vector<LaneWay> lane_ways();

}  // namespace hbmwire::test
