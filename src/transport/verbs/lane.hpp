// SPDX-License-Identifier: MIT
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "hbmwire/link.hpp"
#include "hbmwire/low_level/connection.hpp"
#include "hbmwire/nic.hpp"

#include "transport/lane.hpp"
#include "transport/verbs/completion_queue.hpp"
#include "verbs/nic_state.hpp"
#include "verbs/queue_pair.hpp"
#include "verbs/wiring.hpp"

namespace hbmwire::transport {

class SharedReceives;

/// The options of a VerbsLane.
struct LaneOptions {
  std::uint32_t send_depth = 64;
  std::uint32_t receive_depth = 64;
  std::uint32_t inline_bytes = 0;      ///< requested; Lane::inline_bytes() tells what there is
  ibv_pd* pd = nullptr;                ///< instead of the NIC's
  SharedReceives* receives = nullptr;  ///< replaces its own `receive_depth`; outlives the lane
  LinkOptions link = {};               ///< only the port's entries; connect() sets the rest
};

/// A chain in the form that ibv_post_send(3) takes. Posting it unchanged writes nothing but the
/// fence.
class VerbsChain final : public PreparedChain {
 public:
  explicit VerbsChain(std::span<const Request> requests);
  VerbsChain(const VerbsChain&) = delete;
  VerbsChain& operator=(const VerbsChain&) = delete;
  ~VerbsChain() override = default;

  [[nodiscard]] ibv_send_wr& first() noexcept { return requests_.front(); }

  inline void aim(std::size_t index, const Aim& at) noexcept override;
  void close(std::uint32_t size, Opcode opcode, std::uint64_t part,
             std::uint64_t last) noexcept override;

 private:
  std::vector<ibv_send_wr> requests_;
  std::vector<ibv_sge> elements_;
};

/// An RC queue pair with a completion queue that lanes share. Requests go straight to libibverbs
/// (lane_datapath.hpp).
class VerbsLane final : public Lane {
 public:
  static Result<std::unique_ptr<VerbsLane>> create(const Nic& nic,
                                                   VerbsCompletionQueue& completions,
                                                   const LaneOptions& options);
  VerbsLane(const VerbsLane&) = delete;
  VerbsLane& operator=(const VerbsLane&) = delete;
  ~VerbsLane() override;

  inline int post(const Operation& operation, std::uint64_t id) noexcept override;
  inline int post(const Message& message, std::uint64_t id) noexcept override;
  inline int post(PreparedChain& chain, bool fenced, bool& begun) noexcept override;
  int post(std::span<const Request> chain, bool& begun) noexcept override;
  [[nodiscard]] std::unique_ptr<PreparedChain> prepare(
      std::span<const Request> requests) const override;
  int post_receives(std::span<const Receive> receives, std::size_t& posted) noexcept override;

  [[nodiscard]] std::string_view device() const noexcept override { return nic_->info.name; }

  Result<void> connect(const verbs::Wiring& wiring) override;
  Result<void> to_error() override;
  [[nodiscard]] bool took_last_receive() noexcept override;
  [[nodiscard]] bool in_error() const noexcept override;

  /// Destroys the queue pair.
  void cut() noexcept override;

  Result<void> restart() override;
  Result<void> connect_again() override;

  [[nodiscard]] const detail::NicState& nic() const noexcept { return *nic_; }

  [[nodiscard]] ibv_qp* queue_pair() const noexcept { return qp_.get(); }

 private:
  VerbsLane(const Nic& nic, VerbsCompletionQueue& completions);

  inline int post_chain(ibv_send_wr& first, bool& begun) noexcept;

  ibv_qp* queue_ = nullptr;  // the queue pair of `qp_`, until cut()
  std::shared_ptr<detail::NicState> nic_;
  VerbsCompletionQueue& queue_of_completions_;
  int places_ = 0;                // reserved in that queue
  bool was_ready_ = false;        // connect() was called
  verbs::SharedReceiver shared_;  // whether the device says that the last receive was taken
  verbs::Qp qp_;
  verbs::PortEntries entries_;
  verbs::Wiring wiring_;  // that of connect(), for connect_again()
};

}  // namespace hbmwire::transport
