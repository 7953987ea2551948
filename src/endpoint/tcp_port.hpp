// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/told_cause.hpp"
#include "endpoint/worker_nic.hpp"

namespace hbmwire::detail {

class TcpLink;
struct WorkerState;

/// A worker's endpoints over TCP: they share a completion queue, as those of a NIC do, and what
/// stands in the NIC's place. Polling the queue goes on with all of them.
class TcpPort final : public transport::CompletionQueue {
 public:
  /// Errors: Stage::allocate.
  static Result<std::unique_ptr<TcpPort>> create(WorkerState& worker);
  TcpPort(const Context& context_of, WorkerNic nic_of);
  TcpPort(const TcpPort&) = delete;
  TcpPort& operator=(const TcpPort&) = delete;
  ~TcpPort() override = default;

  /// `completions`: at most so many of it wait at a time to be polled.
  void add(TcpLink& link, std::size_t completions);

  /// What it has completed and nobody has polled is forgotten.
  void forget(const TcpLink& link, std::size_t completions) noexcept;
  void complete(const TcpLink& link, const transport::Completion& completion) noexcept;

  /// Whether `nic` is no NIC but what stands in the place of one.
  [[nodiscard]] static bool stands_for(const NicState& nic) noexcept { return !nic.context; }

  /// A piece of host memory for what the engine of `device` (or null) moves; null: there is none
  /// now.
  [[nodiscard]] std::byte* take_piece(MemoryDomain* device) noexcept;
  void give_back(std::byte* piece) noexcept;

  int poll(std::span<transport::Completion> into) noexcept override;

  /// There are no events: what makes its descriptors readable it has to look at each time.
  Result<void> arm() override;

  void lose() noexcept override {}

  WorkerNic nic;  // without a channel and a LoopbackMover

 private:
  struct Completion {
    const TcpLink* link = nullptr;
    transport::Completion what;
  };

  static constexpr unsigned kMostUnasked = 8;

  const Context& of_;
  std::vector<TcpLink*> links_;
  std::optional<transport::PiecePool> pieces_;  // once a device is involved
  ToldCause no_pieces_;                         // of which the log has told
  // Those in [first_, end_) of a ring, which is as large as all links may need at a time.
  std::vector<Completion> ready_;
  std::size_t most_ = 0;  // of the links
  std::uint64_t first_ = 0;
  std::uint64_t end_ = 0;
  unsigned told_unasked_ = 0;  // polls since the sockets were asked
};

}  // namespace hbmwire::detail
