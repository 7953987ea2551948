// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "hbmwire/hbmwire.hpp"

#include "subject.hpp"

namespace hbmwire::test {

/// The peer's part in messages and immediates: receives messages into Shared::inbox, returns the
/// tagged ones, and checks the bytes that an immediate reports.
class Counterpart {
 public:
  Counterpart(Endpoint endpoint, const Region& inbox, const Shared& shared)
      : endpoint_(std::move(endpoint)), inbox_(inbox), shared_(shared) {}

  /// Handles the transfers that have ended, and posts new receives. Never waits.
  void go_on();

  /// Waits at most `bound` until all transfers have ended.
  void end(std::chrono::nanoseconds bound);

  [[nodiscard]] int complaints() const noexcept { return complaints_; }

 private:
  enum class Kind : std::uint8_t { plain, tagged, immediate, echo };

  struct Posted {
    Kind kind = Kind::plain;
    std::uint64_t ordinal = 0;
    Transfer transfer;
  };

  /// Posts the next receive of a kind. Returns false if none is due.
  bool post(Kind kind);
  /// Checks a transfer that has ended. Sends a tagged message back.
  void take(const Posted& posted);
  void take_immediate(const Transfer& transfer);
  void complain(const std::string& what);

  Endpoint endpoint_;
  const Region& inbox_;
  const Shared& shared_;
  std::vector<Posted> posted_;
  std::array<std::uint64_t, 3> next_{};  // index of the next receive of each kind
  std::array<std::uint64_t, 3> over_{};  // receives of each kind that have ended
  // The next immediate must have at least this number, because immediates arrive in order.
  std::uint64_t at_least_ = 0;
  int complaints_ = 0;
};

}  // namespace hbmwire::test
