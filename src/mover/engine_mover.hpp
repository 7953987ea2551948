// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "hbmwire/memory.hpp"

#include "mover/mover.hpp"

namespace hbmwire::detail {

/// Puts and gets of one endpoint by a device's engine, of this process or the peer's. One is under
/// way at a time, at the head of the endpoint's queue: it waits for what the NIC has of the
/// endpoint, has flushed what the NIC wrote, is carried by the engine, and then sends its
/// immediate.
class EngineMover : public Mover {
 public:
  explicit EngineMover(EndpointState& endpoint) noexcept : endpoint_(endpoint) {}

  bool advance(TransferState& transfer) noexcept override;
  bool finish(TransferState& transfer) noexcept override;
  std::size_t progress() noexcept override;
  void drain(const Error& why) noexcept override;

 protected:
  enum class State : std::uint8_t {
    waiting,   ///< for what the NIC has of the endpoint, up to `slot`
    flushing,  ///< the NIC makes what it wrote visible to the engine; in `slot`
    copying,   ///< the engine
    telling,   ///< the immediate is with the NIC; in `slot`
    over,
  };

  struct Job {
    TransferState& transfer;
    Allocation memory;  // this end's, whatever becomes of the region
    State state = State::waiting;
    std::uint32_t slot = 0;  // of EndpointState::ring
    std::optional<Error> error = {};
    bool looks = true;  // counted in WorkerState::staged
  };

  /// Has the engine begin, or sets Job::error.
  virtual void begin(Job& job) noexcept = 0;

  /// Whether the engine touches nothing of it any more; then nothing else is held for it, either.
  virtual bool has_ended(Job& job) noexcept = 0;

  /// Lets go of the engine, and waits for it.
  virtual void wait() noexcept = 0;

  /// Whether the NIC may read the peer's memory to flush it. Errors: the key has ended.
  [[nodiscard]] virtual Result<void> check_flush(const Job& /*job*/) const { return {}; }

  /// Whether it waits for what gets before a fence bring.
  [[nodiscard]] virtual bool is_behind_fence() const noexcept { return true; }

  /// Whether it is given up, with no error.
  [[nodiscard]] virtual bool is_given_up() const noexcept { return false; }

  /// Counts it in or out of those that the worker asks.
  void look(bool looks) noexcept;

  /// Lets go of it, whatever becomes of the transfer.
  Job take_out() noexcept;

  [[nodiscard]] bool goes_on() const noexcept;

  EndpointState& endpoint_;
  std::optional<Job> job_;

 private:
  bool begin_job(TransferState& transfer) noexcept;
  bool run() noexcept;
  bool step(Job& job) noexcept;
  bool start_next(Job& job) noexcept;
  [[nodiscard]] bool wrote_before(const TransferState& transfer) const noexcept;
  void flush(Job& job) noexcept;
};

}  // namespace hbmwire::detail
