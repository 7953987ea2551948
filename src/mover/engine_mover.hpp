// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "hbmwire/memory.hpp"

#include "mover/mover.hpp"

namespace hbmwire::detail {

/// Puts and gets of one endpoint by a device's engine, of this process or of the peer's. One is
/// under way at a time, at the head of the endpoint's queue. Its steps: wait for earlier requests
/// of the NIC; flush bytes that the NIC wrote; let the engine copy; send the immediate.
class EngineMover : public Mover {
 public:
  explicit EngineMover(EndpointState& endpoint) noexcept : endpoint_(endpoint) {}

  bool advance(TransferState& transfer) noexcept override;
  bool finish(TransferState& transfer) noexcept override;
  std::size_t progress() noexcept override;
  void drain(const Error& why) noexcept override;

 protected:
  enum class State : std::uint8_t {
    waiting,   ///< for requests of the NIC before `slot`
    flushing,  ///< the NIC makes its writes visible to the engine; its READ is before `slot`
    copying,   ///< the engine copies
    telling,   ///< the NIC has the immediate, before `slot`
    over,
  };

  struct Job {
    TransferState& transfer;
    Allocation memory;  // this end's memory; it outlives the region
    State state = State::waiting;
    std::uint32_t slot = 0;  // a place in the send queue
    std::optional<Error> error = {};
    bool polled = true;  // counted in WorkerState::staged
  };

  /// Starts the engine, or sets Job::error.
  virtual void begin(Job& job) noexcept = 0;

  /// Whether the engine no longer touches the memory. Once it does not, this mover no longer holds
  /// the memory either.
  virtual bool has_ended(Job& job) noexcept = 0;

  /// Waits for the engine, and lets go of it.
  virtual void wait() noexcept = 0;

  /// Checks that the NIC may read the peer's memory to flush it. Errors: the key has ended.
  [[nodiscard]] virtual Result<void> check_flush(const Job& /*job*/) const { return {}; }

  /// Whether its transfers wait at a fence until devices see the bytes of earlier gets.
  [[nodiscard]] virtual bool is_behind_fence() const noexcept { return true; }

  /// Whether the job has been given up without an error.
  [[nodiscard]] virtual bool is_given_up() const noexcept { return false; }

  /// Counts the job in or out of those that the worker polls.
  void set_polled(bool polled) noexcept;

  /// Takes the job out, whatever becomes of the transfer.
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
