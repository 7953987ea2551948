// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "hbmwire/memory.hpp"
#include "hbmwire/memory_domain.hpp"

#include "registration/exports.hpp"
#include "wire/control_messages.hpp"

namespace hbmwire::detail {

struct EndpointState;
struct WorkerState;

/// Copies between memory that this process exported and memory of its peers, which it opens for
/// that (wire::IpcCopy), for all endpoints of a worker. What is open is given back before the
/// answer is said: the peer may free it from then on. An endpoint counts what it has here as
/// `moving`, so that it says Fenced behind it.
class IpcServer {
 public:
  explicit IpcServer(WorkerState& worker) noexcept : worker_(worker) {}

  IpcServer(const IpcServer&) = delete;
  IpcServer& operator=(const IpcServer&) = delete;
  ~IpcServer() = default;

  /// Throws std::bad_alloc, and nothing has begun then.
  void begin(EndpointState& endpoint, const wire::IpcCopy& what);

  /// Answers what is over. The number of things that happened.
  std::size_t progress() noexcept;

  /// Waits for the engines; nobody is answered.
  void end() noexcept;

 private:
  using Outcome = wire::IpcCopied::Outcome;

  struct Job {
    EndpointState* endpoint;
    std::uint32_t id;
    std::optional<Allocation> theirs = {};
    std::optional<ExportHold> hold = {};  // of ours; it has the copy
    Outcome outcome = Outcome::copied;
  };

  Outcome start(Job& job, const wire::IpcCopy& what) const noexcept;
  [[nodiscard]] Result<Allocation> open(MemoryDomain& ours, const IpcHandle& theirs) const;
  void answer(Job& job) noexcept;

  WorkerState& worker_;
  std::vector<std::unique_ptr<Job>> jobs_;  // at most one an endpoint
};

}  // namespace hbmwire::detail
