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

  /// Never waits.
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

  bool post(Kind kind);
  void take(const Posted& posted);
  void take_immediate(const Transfer& transfer);
  void complain(const std::string& what);

  Endpoint endpoint_;
  const Region& inbox_;
  const Shared& shared_;
  std::vector<Posted> posted_;
  std::array<std::uint64_t, 3> next_{};  // index of the next receive of each kind
  std::array<std::uint64_t, 3> over_{};
  // The next immediate must have at least this number, because they arrive in order.
  std::uint64_t at_least_ = 0;
  int complaints_ = 0;
};

}  // namespace hbmwire::test
