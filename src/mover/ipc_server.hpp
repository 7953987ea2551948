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

/// Copies that peers in other processes ask for (wire::IpcCopy), for all endpoints of a worker:
/// between memory that this process exported and memory of a peer, which it opens for that. The
/// memory is given back before the answer is sent, since the peer may free it from then on. The
/// endpoint counts each copy as `moving`, so that it says Fenced only after it.
class IpcServer {
 public:
  explicit IpcServer(WorkerState& worker) noexcept : worker_(worker) {}

  IpcServer(const IpcServer&) = delete;
  IpcServer& operator=(const IpcServer&) = delete;
  ~IpcServer() = default;

  /// Begins a copy. Throws std::bad_alloc; then nothing has begun.
  void begin(EndpointState& endpoint, const wire::IpcCopy& what);

  /// Answers copies that are over. Returns the number of events.
  std::size_t progress() noexcept;

  /// Waits for the engines, and sends no answers.
  void end() noexcept;

 private:
  using Outcome = wire::IpcCopied::Outcome;

  struct Job {
    EndpointState* endpoint;
    std::uint32_t id;
    std::optional<Allocation> theirs = {};
    std::optional<ExportHold> hold = {};  // of our memory; it has the copy
    Outcome outcome = Outcome::copied;
  };

  Outcome start(Job& job, const wire::IpcCopy& what) const noexcept;
  [[nodiscard]] Result<Allocation> open(MemoryDomain& ours, const IpcHandle& theirs) const;
  void answer(Job& job) noexcept;

  WorkerState& worker_;
  std::vector<std::unique_ptr<Job>> jobs_;  // at most one for each endpoint
};

}  // namespace hbmwire::detail
