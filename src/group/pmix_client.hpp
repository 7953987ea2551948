// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "hbmwire/deadline.hpp"
#include "hbmwire/error.hpp"

#include "base/forks.hpp"
#include "group/late_answer.hpp"
#include "group/launch_environment.hpp"

namespace hbmwire::detail {

struct PmixLibrary;

/// This process as a client of PMIx: there is one, initialised once, since PMIx (4.2) does not bear
/// a second PMIx_Init() after a PMIx_Finalize(). PMIx_Finalize() is called when the process exits,
/// because mpirun takes a process that ends without it for a failed one. Calls of the library that
/// block run in a thread of their own, so that a server of PMIx that hangs holds no caller beyond
/// its deadline.
///
/// Rank 0 leaves its value under a numbered key, another one each time, because a value once read
/// stays in the other processes' caches.
class PmixClient {
 public:
  /// Opens the library and initialises it, when first called. Errors: Errc::not_found: no library,
  /// or the build had no header of it; Errc::not_supported: a child by fork(2);
  /// Errc::peer_failed: there is no server, or it refuses; timed_out, cancelled.
  static Result<PmixClient*> get(const Wait& wait);

  /// May throw std::bad_alloc.
  PmixClient();
  PmixClient(const PmixClient&) = delete;
  PmixClient& operator=(const PmixClient&) = delete;
  ~PmixClient();

  [[nodiscard]] PmixJob job() const;

  /// Leaves a text at rank 0. Errors: Errc::peer_failed, timed_out, cancelled.
  Result<void> leave(const std::string& text, const Wait& wait);

  /// The newest text of rank 0's that has come; empty: none. Waits for at most a tenth of a second.
  Result<std::string> look(const Wait& wait);

 private:
  Result<void> start(const Wait& wait);
  Result<std::shared_ptr<LateAnswer>> ask(std::uint64_t number);
  static void finalize() noexcept;

  MadeHere made_;
  std::unique_ptr<PmixLibrary> library_;
  std::shared_ptr<LateAnswer> started_;
  std::mutex mutex_;        // guards all below
  std::uint64_t left_ = 0;  // how many texts this process has left
  std::uint64_t next_ = 1;  // the number of the text that is asked for
  std::shared_ptr<LateAnswer> asked_;
  std::string newest_;
};

}  // namespace hbmwire::detail
