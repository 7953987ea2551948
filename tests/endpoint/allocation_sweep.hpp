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

/// One run through a life of the library's objects, in which the n-th allocation fails.
class FailingLife {
 public:
  FailingLife(long nth, bool for_good) : left_(nth), for_good_(for_good) {}

  /// `call()`, a function of the library with a Result, which may meet the allocation that fails.
  /// It must then give an error that says so, or have gone on without; and succeed when it is
  /// called again. Nothing: it did not, since the connection that it needs has gone.
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

  /// The same of what happens on a connection: one that has failed by it is not gone on with.
  template <class Call>
  auto use(const char* what, const Call& call)
      -> std::optional<typename decltype(call())::value_type> {
    if (broken_) return std::nullopt;
    auto result = once(what, call);
    if (result) return std::move(*result);
    broken_ = true;
    return std::nullopt;
  }

  /// The same without a value. False: the connection has gone.
  template <class Call>
  bool done(const char* what, const Call& call) {
    if (broken_) return false;
    const auto result = once(what, call);
    broken_ = !result;
    return !broken_;
  }

  /// Destructors meet it, too, and say nothing.
  template <class Thing>
  void end(std::optional<Thing>& thing) {
    arm();
    thing.reset();
    disarm();
  }

  /// Whether the allocation was met at all.
  [[nodiscard]] bool met() const noexcept { return met_; }

 private:
  void arm() noexcept { FailingAllocations::arm(left_, for_good_); }

  void disarm() noexcept {
    left_ -= FailingAllocations::disarm();
    failed_now_ = FailingAllocations::failed();
    // One failure a life: what follows has all the memory there is.
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

  /// The other end, which is of this process, meets the allocation as well.
  static bool may_be_a_peers(std::string_view what) { return what.ends_with("connect"); }

  void judge(const char* what, const Error& error) const {
    EXPECT_TRUE(met_) << what << " fails by itself: " << describe(error);
    // The end that had no memory says so; the other one, that its peer has gone.
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

/// Runs `life` with the n-th allocation failing, for n = 1 and every `stride`-th of the further
/// ones, until none is met: once with that one alone, once with all behind it in the same call.
/// Nothing may stay behind. The stride is HBMWIRE_SWEEP_STRIDE's, or `stride`.
void sweep_allocations(const std::function<void(FailingLife&)>& life, long stride);

}  // namespace hbmwire::test
