// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "hbmwire/hbmwire.hpp"

#include "subject.hpp"

namespace hbmwire::test {

/// The peer's part in messages and immediates: it takes them into Shared::inbox, sends the tagged
/// ones back, and looks at what it was told of.
class Counterpart {
 public:
  Counterpart(Endpoint endpoint, const Region& inbox, const Shared& shared)
      : endpoint_(std::move(endpoint)), inbox_(inbox), shared_(shared) {}

  /// Never waits.
  void go_on();

  /// All that is under way ends, within `bound`.
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
  std::array<std::uint64_t, 3> next_{};  // ordinals of the receives of each kind
  std::array<std::uint64_t, 3> over_{};
  std::uint64_t at_least_ = 0;  // the next immediate: they come in order
  int complaints_ = 0;
};

}  // namespace hbmwire::test
