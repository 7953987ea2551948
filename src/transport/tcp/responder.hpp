// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>

#include "hbmwire/memory.hpp"

#include "registration/exports.hpp"
#include "transport/lane.hpp"
#include "transport/tcp/link_state.hpp"
#include "transport/tcp/numbered.hpp"
#include "transport/tcp/stream.hpp"
#include "wire/tcp_frame.hpp"

namespace hbmwire::transport {

/// The part of a TcpLink's data lane that serves the peer: its receives, and the peer's requests,
/// which this process executes itself.
class TcpResponder {
 public:
  TcpResponder(TcpLinkState& link, std::uint32_t depth) : link_(link), receives_(depth) {}

  TcpResponder(const TcpResponder&) = delete;
  TcpResponder& operator=(const TcpResponder&) = delete;
  ~TcpResponder() = default;

  [[nodiscard]] Numbered<Receive>& receives() noexcept { return receives_; }

  // --- progress

  /// Continues the copies that engines carry.
  void advance() noexcept;

  /// Whether no request waits for an answer.
  [[nodiscard]] bool is_idle() const noexcept { return asked_.empty() && answers_.empty(); }

  [[nodiscard]] bool has_answers() const noexcept { return !answers_.empty(); }

  /// Begins the next parts of answers. Returns false if none could be begun.
  bool begin_answers() noexcept;

  /// Fills in the next frame of an answer; returns false if there is none now.
  bool next(OutFrame& frame) noexcept;

  /// The kernel has taken the first part of an answer.
  void sent() noexcept;

  // --- frames: as in FrameUser

  FrameUser::Place place(const wire::TcpFrame& frame, std::uint32_t offset,
                         std::span<std::byte>& memory) noexcept;

  void taken() noexcept { hold_.reset(); }

  void unwritable(const wire::TcpFrame& frame) noexcept;
  void arrived(const wire::TcpFrame& frame) noexcept;

  // --- the end of the lane

  /// break_off() stops all answers; flush() completes the receives.
  void break_off() noexcept;
  void flush() noexcept;

  /// Waits for the engines; nothing completes.
  void end() noexcept;

 private:
  using Frame = wire::TcpFrame;
  using Place = FrameUser::Place;
  using ExportHold = detail::ExportHold;

  /// A part of a peer's WRITE that an engine copies from a piece to its device. Without a piece:
  /// the end of a WRITE after such parts.
  struct Arriving {
    std::uint32_t number = 0;
    bool last = false;
    bool failed = false;
    bool with_immediate = false;
    std::uint32_t immediate = 0;
    std::uint32_t bytes = 0;     // of the WRITE
    std::byte* piece = nullptr;  // an engine is copying it
    PendingCopy copy = {};
    std::optional<Allocation> memory = {};
    std::optional<ExportHold> hold = {};  // holds the copy, if it has one

    [[nodiscard]] Result<bool> poll() { return hold ? hold->poll() : copy.poll(); }
  };

  /// The memory to which the bytes of a WRITE go, or from which those of a READ come.
  struct Target {
    std::byte* memory = nullptr;  // host memory, or null: see `device`
    std::optional<Allocation> device;
    std::uint64_t address = 0;       // the address in either
    std::optional<ExportHold> hold;  // holds the memory key; a receive has none
  };

  /// A READ by the peer that is not answered completely.
  struct Asked {
    std::uint32_t number = 0;
    std::uint64_t address = 0;
    std::uint64_t key = 0;
    std::uint64_t length = 0;
  };

  /// A part of an answer, copied to a piece of host memory: the source may end before the peer has
  /// taken the bytes.
  struct Answer {
    std::uint32_t number = 0;
    std::uint32_t length = 0;
    bool last = true;
    bool begun = false;   // taken to be sent
    bool failed = false;  // never sent, nor any later part
    std::uint64_t value = 0;
    std::byte* piece = nullptr;      // null: the answer is `value`
    std::optional<ExportHold> hold;  // an engine is copying
  };

  Place place_write(const Frame& frame, std::uint32_t offset,
                    std::span<std::byte>& memory) noexcept;
  Result<Target> target_of(const Frame& frame, Access needed) const;
  Result<Target> window_of(const Frame& frame) const;
  void on_write(const Frame& frame) noexcept;
  void on_read(const Frame& frame) noexcept;
  void on_atomic(const Frame& frame) noexcept;
  Result<std::uint64_t> carry_out(const Frame& frame) const;
  bool begin_answer() noexcept;
  void advance_answers() noexcept;
  void let_go_of(Answer& answer) noexcept;
  bool start_copy(const Frame& frame, Arriving& part) noexcept;
  void end_write(const Arriving& part) noexcept;
  void advance_arriving() noexcept;
  void let_go_of(Arriving& part) noexcept;
  void reject(const Frame& frame, const Error& why) noexcept;
  void end_engine() noexcept;

  /// Appends `what` to `parts`. Returns false if there is no memory; the link has failed then.
  template <class Part>
  bool keep(std::deque<Part>& parts, Part& what) noexcept;

  TcpLinkState& link_;
  Numbered<Receive> receives_;
  std::deque<Arriving> arriving_;
  std::byte* piece_ = nullptr;       // for the WRITE whose bytes are coming
  std::uint32_t written_bytes_ = 0;  // received so far of that WRITE
  bool rejecting_ = false;           // a request was refused: no later one is executed
  std::optional<Frame> answer_;      // the latest `done`
  std::optional<Frame> refusal_;
  std::deque<Asked> asked_;
  std::deque<Answer> answers_;
  wire::TcpOperands operands_;      // those of the atomic that is coming
  std::optional<ExportHold> hold_;  // keeps the memory that is being written by the socket
};

/// The memory for the bytes of a message: that of the first receive.
FrameUser::Place place_receive(TcpLinkState& link, Numbered<Receive>& receives,
                               const wire::TcpFrame& frame, std::uint32_t offset,
                               std::span<std::byte>& memory) noexcept;

}  // namespace hbmwire::transport
