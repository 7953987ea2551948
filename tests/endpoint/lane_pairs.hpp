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

/// Two connected data lanes of this process, each with memory. `near` posts requests, and reaches
/// the memory of `far`.
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

  /// The keys of near_bytes() and far_bytes() at their own lanes.
  [[nodiscard]] virtual std::uint32_t near_key() = 0;
  [[nodiscard]] virtual std::uint32_t far_key() = 0;

  /// The key by which `near` names far_bytes().
  [[nodiscard]] virtual std::uint32_t remote_key() = 0;

  /// Destroys the objects that carry the lanes.
  virtual void tear_down(bool far_first) = 0;
};

struct LaneWay {
  std::string name;
  std::unique_ptr<LanePair> (*make)();
};

/// All implementations of transport::Lane.
[[nodiscard]] std::vector<LaneWay> lane_ways();

}  // namespace hbmwire::test
