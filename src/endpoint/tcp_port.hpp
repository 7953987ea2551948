// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/told_cause.hpp"
#include "endpoint/worker_nic.hpp"

namespace hbmwire::detail {

class TcpLink;
struct WorkerState;

/// A worker's endpoints over TCP: they share a completion queue, as those of a NIC do, and what
/// stands in the NIC's place. Polling the queue goes on with all of them.
///
/// libibverbs finds who answers ibv_post_send(3), ibv_post_recv(3), ibv_poll_cq(3) and
/// ibv_req_notify_cq(3) by a table in the object's ibv_context; these are inline functions, and
/// call nothing else. Such a table is here, for queue pairs and a completion queue that libibverbs
/// did not make: nothing but those four may be called with them.
class TcpPort {
 public:
  /// Errors: Stage::allocate.
  static Result<std::unique_ptr<TcpPort>> create(WorkerState& worker);
  TcpPort(const Context& context_of, WorkerNic nic_of);
  TcpPort(const TcpPort&) = delete;
  TcpPort& operator=(const TcpPort&) = delete;
  ~TcpPort() = default;

  /// `completions`: at most so many of it wait at a time to be polled.
  void add(TcpLink& link, std::size_t completions);

  /// What it has completed and nobody has polled is forgotten.
  void forget(const TcpLink& link, std::size_t completions) noexcept;
  void complete(const TcpLink& link, const ibv_wc& completion) noexcept;

  /// Whether `nic` is no NIC but what stands in the place of one.
  [[nodiscard]] static bool stands_for(const NicState& nic) noexcept { return !nic.context; }

  /// A piece of host memory for what the engine of `device` (or null) moves; null: there is none
  /// now.
  [[nodiscard]] std::byte* take_piece(MemoryDomain* device) noexcept;
  void give_back(std::byte* piece) noexcept;

  [[nodiscard]] ibv_context& context() noexcept { return context_; }

  [[nodiscard]] transport::CompletionQueue& completions() noexcept {
    return *nic.completions.front();
  }

  WorkerNic nic;  // without a channel and a LoopbackMover

 private:
  struct Completion {
    const TcpLink* link = nullptr;
    ibv_wc what{};
  };

  static constexpr unsigned kMostUnasked = 8;

  int poll(int most, ibv_wc* completions);

  const Context& of_;

  ibv_context context_{};
  ibv_cq queue_{};
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
