// SPDX-License-Identifier: MIT
#pragma once

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "hbmwire/deadline.hpp"
#include "hbmwire/error.hpp"
#include "hbmwire/fd.hpp"

#include "base/log.hpp"
#include "base/signals.hpp"
#include "base/thread_failure.hpp"
#include "wire/socket_io.hpp"

namespace hbmwire::detail {

/// The answer of a library that calls back, or blocks, in another thread than the one that waits.
/// Both threads hold it: it outlives a waiter that has given up.
class LateAnswer {
 public:
  /// Errors: Stage::connect: there is no descriptor for it.
  static Result<std::shared_ptr<LateAnswer>> make() {
    auto answer = std::make_shared<LateAnswer>();
    answer->given_ = Fd{::eventfd(0, EFD_CLOEXEC)};
    if (!answer->given_) return tl::make_unexpected(system_error(Stage::connect, "eventfd", errno));
    return answer;
  }

  /// Runs `work`, which gives a status, in a thread of its own.
  template <class Work>
  static Result<std::shared_ptr<LateAnswer>> of(Work work) {
    HBMWIRE_TRY_ASSIGN(const auto answer, make());
    try {
      const SignalsBlocked blocked;
      std::thread([answer, work = std::move(work)] { answer->give(work(), {}); }).detach();
    } catch (const std::system_error& error) {
      return tl::make_unexpected(thread_failure(Stage::connect, error.code().value()));
    }
    return answer;
  }

  /// Gives the answer. Call it once, from any thread.
  void give(int status, std::string text) noexcept {
    status_ = status;
    text_ = std::move(text);
    is_given_.store(true, std::memory_order_release);  // pairs with is_given()
    const std::uint64_t one = 1;
    if (::write(given_.get(), &one, sizeof one) != sizeof one)
      log_warning("write", "to an eventfd failed", errno);
  }

  [[nodiscard]] bool is_given() const noexcept { return is_given_.load(std::memory_order_acquire); }

  /// Errors: timed_out, cancelled.
  Result<void> wait_for(const Wait& wait, const char* what, std::string_view subject) const {
    if (is_given()) return {};
    return wire::wait_for(given_.get(), POLLIN, wait, what, subject);
  }

  /// The status of an answer that is given.
  [[nodiscard]] int status() const noexcept { return status_; }

  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  Fd given_;  // an eventfd, readable once the answer is given
  std::atomic<bool> is_given_{false};
  int status_ = 0;  // with text_: constant once is_given_ is true
  std::string text_;
};

}  // namespace hbmwire::detail
