// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <string>

#include "hbmwire/deadline.hpp"

#include "tools/common/failure.hpp"
#include "tools/doctor/pairs/child.hpp"
#include "tools/doctor/remote/conversation.hpp"

namespace hbmwire::tools::doctor {

/// Added to timeouts. The agent's own timeouts should come first, because their messages say more,
/// and its answer also needs time on the network.
inline constexpr std::chrono::seconds kAnswerSlack{2};

/// The connection to an AgentProcess, on this machine or the other one.
class Agent {
 public:
  Agent() = default;
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;
  virtual ~Agent() = default;

  /// Errors: the conversation has ended.
  virtual Outcome<void> tell(const Json& command) = 0;

  /// The answer, or the reason why there is none. Errors: the conversation has ended.
  virtual Outcome<Heard> hear(const Deadline& until, int cancel_fd) = 0;

  /// Whether the process has ended or was ended.
  [[nodiscard]] virtual bool is_over() const noexcept = 0;

  /// Ends the process, and returns how it ended: "" for an exit, or "killed by signal 11 (...)".
  virtual std::string end() = 0;
};

class LocalAgent final : public Agent {
 public:
  explicit LocalAgent(Child child) noexcept : child_(std::move(child)) {}

  Outcome<void> tell(const Json& command) override;
  Outcome<Heard> hear(const Deadline& until, int cancel_fd) override;

  [[nodiscard]] bool is_over() const noexcept override { return over_; }

  std::string end() override;

 private:
  Child child_;
  bool over_ = false;
};

/// Talks to an agent that a `doctor --serve` has started under this number. The conversation must
/// outlive it.
class RemoteAgent final : public Agent {
 public:
  RemoteAgent(Conversation& conversation, unsigned number) noexcept
      : conversation_(conversation), number_(number) {}

  /// Starts a process: "job" with "plan" or "machine"; or "memory" with a label. Errors: the
  /// conversation has ended.
  Outcome<void> start(const char* what, const std::string& name);

  Outcome<void> tell(const Json& command) override;
  Outcome<Heard> hear(const Deadline& until, int cancel_fd) override;

  [[nodiscard]] bool is_over() const noexcept override { return over_; }

  std::string end() override;

 private:
  Outcome<void> say(const Json& message);

  Conversation& conversation_;
  unsigned number_;
  bool over_ = false;
  std::string how_;
};

}  // namespace hbmwire::tools::doctor
