// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <utility>

#include "base/forks.hpp"
#include "counters/store.hpp"

namespace hbmwire::counters {

/// A context's number in the Store during the context's life. Move-only.
class ContextCounters {
 public:
  ContextCounters() noexcept = default;

  /// Errors: those of Store::begin_context().
  static Result<ContextCounters> begin(const StatisticsSettings& settings) {
    ContextCounters made;
    HBMWIRE_TRY_ASSIGN(made.number_, Store::get().begin_context(settings));
    return made;
  }

  ContextCounters(ContextCounters&& other) noexcept
      : number_(std::exchange(other.number_, 0)), made_(other.made_) {}

  ContextCounters& operator=(ContextCounters&& other) noexcept {
    std::swap(number_, other.number_);
    std::swap(made_, other.made_);
    return *this;
  }

  ContextCounters(const ContextCounters&) = delete;
  ContextCounters& operator=(const ContextCounters&) = delete;

  ~ContextCounters() {
    // A child by fork(2) has its own Store, which does not know this context.
    if (number_ != 0 && !made_.is_inherited()) Store::get().end_context(number_);
  }

  [[nodiscard]] std::uint32_t number() const noexcept { return number_; }

 private:
  std::uint32_t number_ = 0;
  MadeHere made_;
};

}  // namespace hbmwire::counters
