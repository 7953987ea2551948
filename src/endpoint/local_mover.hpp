// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "hbmwire/nic.hpp"

#include "transport/verbs/lane.hpp"
#include "verbs/handles.hpp"

struct ibv_wc;

namespace hbmwire::detail {

struct EndpointState;
struct LocalMover;
struct TransferState;

/// One use of the mover.
struct MoverJob {
  LocalMover* mover = nullptr;
  TransferState* transfer = nullptr;
  EndpointState* endpoint = nullptr;  // null: none has it under way
};

/// A NIC of a worker on its own machine's device memory: it reads a byte of what NICs wrote, which
/// makes that visible to the device's engines (docs/adr/0005), and brings small messages there.
/// Neither asks anything of the device's driver, nor waits for it.
///
/// Two connected queue pairs, the answering one in a protection domain of its own, where nothing is
/// but host memory of the worker's: no peer, whatever keys it guesses, comes by there, and regions
/// need no remote access.
struct LocalMover {
  static Result<std::unique_ptr<LocalMover>> create(const Nic& nic,
                                                    transport::CompletionQueue& completions);
  explicit LocalMover(Nic nic_of);

  static constexpr std::uint32_t kJobs = 64;
  static constexpr std::uint32_t kRequests = 2 * kJobs;
  static constexpr int kPlaces = kRequests + 2;  // of a completion queue

  /// Registers host memory to bring messages from.
  [[nodiscard]] Result<verbs::Mr> admit(std::byte* memory, std::uint64_t bytes) const;

  /// Makes the transfer's memory (TransferState::operation) visible to its device; before that
  /// brings `message` there, if it has one, by `remote_key` of admit().
  void start(TransferState& transfer, std::uint32_t remote_key) noexcept;

  void on_moved(MoverJob& job, const ibv_wc& completion, bool last) noexcept;

  /// Works again after a failure. Not on the data path.
  void mend() noexcept;

  Result<void> connect(transport::CompletionQueue& completions);
  void post_waiting() noexcept;
  int post(TransferState& transfer) noexcept;
  void finish(TransferState& transfer, EndpointState* endpoint, const Error* error) noexcept;

  Nic nic;
  transport::CompletionQueue* completions = nullptr;
  verbs::Pd pd;
  std::uint64_t scratch = 0;  // a byte that nobody looks at
  verbs::Mr scratch_region;
  std::unique_ptr<transport::Lane> asks;
  std::unique_ptr<transport::Lane> answers;
  std::vector<MoverJob> jobs;
  std::uint32_t head = 0;
  std::uint32_t outstanding = 0;
  TransferState* first_waiting = nullptr;
  TransferState* last_waiting = nullptr;
  bool broken = false;
};

}  // namespace hbmwire::detail
