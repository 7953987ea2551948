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

/// A TcpLink's data lane as the peer asks by it: its receives, and the peer's requests, which this
/// process carries out itself.
class TcpResponder {
 public:
  TcpResponder(TcpLinkState& link, std::uint32_t depth) : link_(link), receives_(depth) {}

  TcpResponder(const TcpResponder&) = delete;
  TcpResponder& operator=(const TcpResponder&) = delete;
  ~TcpResponder() = default;

  [[nodiscard]] Numbered<Receive>& receives() noexcept { return receives_; }

  // --- of progress

  /// Goes on with what engines carry.
  void advance() noexcept;

  /// Nothing waits to be answered.
  [[nodiscard]] bool is_idle() const noexcept { return asked_.empty() && answers_.empty(); }

  [[nodiscard]] bool has_answers() const noexcept { return !answers_.empty(); }

  /// Begins the next parts of answers. False: none could be.
  bool begin_answers() noexcept;

  /// The next frame of an answer; false: there is none now.
  bool next(OutFrame& frame) noexcept;

  /// The kernel has the first part of an answer.
  void sent() noexcept;

  // --- of frames

  FrameUser::Place place(const wire::TcpFrame& frame, std::uint32_t offset,
                         std::span<std::byte>& memory) noexcept;

  void taken() noexcept { hold_.reset(); }

  void unwritable(const wire::TcpFrame& frame) noexcept;
  void arrived(const wire::TcpFrame& frame) noexcept;

  // --- its end

  /// Nothing is answered any more; the receives complete.
  void break_off() noexcept;
  void flush() noexcept;

  /// Waits for engines; nothing completes.
  void end() noexcept;

 private:
  using Frame = wire::TcpFrame;
  using Place = FrameUser::Place;
  using ExportHold = detail::ExportHold;

  /// A part of a peer's WRITE that an engine carries from a piece to its device; or, without one,
  /// the end of a WRITE behind such parts.
  struct Arriving {
    std::uint32_t number = 0;
    bool last = false;
    bool failed = false;
    bool with_immediate = false;
    std::uint32_t immediate = 0;
    std::uint32_t bytes = 0;     // of the WRITE
    std::byte* piece = nullptr;  // with the engine
    PendingCopy copy = {};
    std::optional<Allocation> memory = {};
    std::optional<ExportHold> hold = {};  // has the copy, where there is one

    [[nodiscard]] Result<bool> poll() { return hold ? hold->poll() : copy.poll(); }
  };

  /// Where bytes of a WRITE go, or of a READ come from.
  struct Target {
    std::byte* memory = nullptr;  // of the host, or
    std::optional<Allocation> device;
    std::uint64_t address = 0;       // there
    std::optional<ExportHold> hold;  // of a memory key; none: of a receive
  };

  /// A READ of the peer's that is not answered in full.
  struct Asked {
    std::uint32_t number = 0;
    std::uint64_t address = 0;
    std::uint64_t key = 0;
    std::uint64_t length = 0;
  };

  /// A part of an answer, in a piece of host memory: what it was copied from may end before the
  /// peer has taken it.
  struct Answer {
    std::uint32_t number = 0;
    std::uint32_t length = 0;
    bool last = true;
    bool begun = false;   // taken to be sent
    bool failed = false;  // and it is never sent, nor what follows it
    std::uint64_t value = 0;
    std::byte* piece = nullptr;      // null: it is `value`
    std::optional<ExportHold> hold;  // an engine is at it
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

  /// `what` behind the others. False: there is no memory, and the link has failed.
  template <class Part>
  bool keep(std::deque<Part>& parts, Part& what) noexcept;

  TcpLinkState& link_;
  Numbered<Receive> receives_;
  std::deque<Arriving> arriving_;
  std::byte* piece_ = nullptr;       // of the WRITE whose bytes are coming
  std::uint32_t written_bytes_ = 0;  // of the WRITE that is coming, in all of its frames
  bool rejecting_ = false;           // a request was not carried out: none that follows is
  std::optional<Frame> answer_;      // the latest `done`
  std::optional<Frame> refusal_;
  std::deque<Asked> asked_;
  std::deque<Answer> answers_;
  wire::TcpOperands operands_;      // of the atomic that is coming
  std::optional<ExportHold> hold_;  // of what is being read from the socket
};

/// Where bytes of a message go: to the first receive.
FrameUser::Place place_receive(TcpLinkState& link, Numbered<Receive>& receives,
                               const wire::TcpFrame& frame, std::uint32_t offset,
                               std::span<std::byte>& memory) noexcept;

}  // namespace hbmwire::transport
