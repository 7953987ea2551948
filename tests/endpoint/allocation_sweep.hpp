// SPDX-License-Identifier: MIT
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "hbmwire/hbmwire.hpp"

#include "ends.hpp"
#include "failing_allocations.hpp"

namespace hbmwire::test {

/// One run through the life of the library's objects, in which the n-th allocation fails.
class FailingLife {
 public:
  FailingLife(long nth, bool for_good) : left_(nth), for_good_(for_good) {}

  /// Runs `call()`, a function of the library that returns a Result and may meet the failing
  /// allocation. It must then return an error that says so, or succeed without the memory; and it
  /// must succeed when called again. Otherwise the test fails, and the result is empty.
  template <class Call>
  auto make(const char* what, const Call& call)
      -> std::optional<typename decltype(call())::value_type> {
    auto result = once(what, call);
    if (!result && failed_now_) {
      EXPECT_TRUE(result.error().code == Errc::exhausted || may_be_a_peers(what))
          << what << ": " << describe(result.error());
      result = call();
    }
    if (result) return std::move(*result);
    ADD_FAILURE() << what << ", when there is memory again: " << describe(result.error());
    return std::nullopt;
  }

  /// Runs `call()`, which uses a connection and may meet the failing allocation. After an error the
  /// connection is not used any more: this and all later calls of use() return empty.
  template <class Call>
  auto use(const char* what, const Call& call)
      -> std::optional<typename decltype(call())::value_type> {
    if (broken_) return std::nullopt;
    auto result = once(what, call);
    if (result) return std::move(*result);
    broken_ = true;
    return std::nullopt;
  }

  /// As use(), for calls without a value. Returns false if the connection has ended.
  template <class Call>
  bool done(const char* what, const Call& call) {
    if (broken_) return false;
    const auto result = once(what, call);
    broken_ = !result;
    return !broken_;
  }

  /// Destructors may meet the failing allocation, too, and must not report it.
  template <class Thing>
  void end(std::optional<Thing>& thing) {
    arm();
    thing.reset();
    disarm();
  }

  /// Whether the life reached the failing allocation.
  [[nodiscard]] bool met() const noexcept { return met_; }

 private:
  void arm() noexcept { FailingAllocations::arm(left_, for_good_); }

  void disarm() noexcept {
    left_ -= FailingAllocations::disarm();
    failed_now_ = FailingAllocations::failed();
    // Only one allocation fails in a life; the rest of it has enough memory.
    if (failed_now_) left_ = 1L << 60;
    met_ = met_ || failed_now_;
  }

  template <class Call>
  auto once(const char* what, const Call& call) -> decltype(call()) {
    arm();
    try {
      auto result = call();
      disarm();
      if (!result) judge(what, result.error());
      return result;
    } catch (const std::exception& thrown) {
      disarm();
      ADD_FAILURE() << thrown.what() << " left " << what;
    }
    failed_now_ = false;
    return tl::make_unexpected(make_error(Errc::system, Stage::complete, "an exception"));
  }

  /// Whether the allocation may belong to the other end, which is in this process, too.
  static bool may_be_a_peers(std::string_view what) { return what.ends_with("connect"); }

  void judge(const char* what, const Error& error) const {
    EXPECT_TRUE(met_) << what << " fails by itself: " << describe(error);
    // The end without memory reports that. The other one reports that its peer has ended.
    EXPECT_TRUE(error.code == Errc::exhausted || error.code == Errc::peer_failed ||
                error.code == Errc::cancelled || error.code == Errc::timed_out)
        << what << ": " << describe(error);
    if (error.code == Errc::exhausted && !may_be_a_peers(what)) {
      EXPECT_EQ(error.hint, Hint::host_memory_exhausted) << what << ": " << describe(error);
    }
  }

  long left_;
  bool for_good_;
  bool failed_now_ = false;
  bool met_ = false;
  bool broken_ = false;
};

/// Runs `life` with the n-th allocation failing, for n = 1, 1 + `stride`, and so on, until a life
/// does not reach it. Each n runs twice: only that allocation fails, or also all later ones in the
/// same call. No resource may stay behind. HBMWIRE_SWEEP_STRIDE overrides `stride`,
/// HBMWIRE_SWEEP_FIRST the first n.
void sweep_allocations(const std::function<void(FailingLife&)>& life, long stride);

}  // namespace hbmwire::test
