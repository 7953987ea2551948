// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "hbmwire/deadline.hpp"

#include "endpoint/task.hpp"

namespace hbmwire::detail {

struct EndpointState;

/// The end of an endpoint by its program (Endpoint::close()). It waits for operations under way,
/// says goodbye, and waits for the peer's goodbye. If that fails, it waits until both sides are
/// closed.
class Goodbye final : public Task {
 public:
  Goodbye(EndpointState& endpoint, const Deadline& until) noexcept;
  ~Goodbye() override = default;
  Goodbye(const Goodbye&) = delete;
  Goodbye& operator=(const Goodbye&) = delete;

  /// Does the next steps that are possible at `at`.
  void look_after(std::chrono::steady_clock::time_point at) noexcept override;

  /// Gives up waiting. Everything under way then fails because of `why`, which may take as long as
  /// the end of an endpoint.
  void give_up(const Error& why) noexcept override;

  /// Closes the endpoint now, whether it has ended or not.
  void finish() noexcept;

 private:
  enum class Step : std::uint8_t {
    busy,      ///< waits for operations under way
    parting,   ///< has said goodbye, and waits for the peer's
    settling,  ///< waits for the end of the endpoint
  };

  /// From here on waits only for the end of the endpoint.
  void stop(const std::optional<Error>& why) noexcept;

  EndpointState& endpoint_;
  Deadline until_;
  Deadline settled_by_ = Deadline::never();
  Step step_ = Step::busy;
  bool was_ready_;  // whether the endpoint was ready when the close began: if so, a later failure
                    // is the close's error
  std::optional<Error> why_;
};

}  // namespace hbmwire::detail
