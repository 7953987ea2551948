// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "endpoint/sockets.hpp"
#include "endpoint/tcp_port.hpp"
#include "registration/exports.hpp"
#include "transport/lane.hpp"
#include "transport/staged/piece_pool.hpp"
#include "transport/tcp/stream.hpp"

namespace hbmwire::detail {

struct EndpointState;

/// Both lanes of an endpoint over one TCP connection: its requests go as frames, and the frames of
/// the peer's are carried out here, by this process, whenever its worker makes progress.
///
/// As on a reliable connection requests complete in the order in which they were posted, a SEND
/// once the kernel has it, anything else once the peer has said so; and what a lane was asked for
/// when it is broken off is flushed. Words between the ends go first. What fails here is a fault():
/// the endpoint is told when it looks, not in the middle of a poll.
class TcpLink final : private transport::FrameUser, private SocketOwner {
 public:
  using Clock = transport::Stream::Clock;

  /// Requests that a lane has at a time, and receives.
  struct Depths {
    std::uint32_t data_requests = 0;
    std::uint32_t data_receives = 0;
    std::uint32_t control = 0;  // each way
  };

  static constexpr std::uint64_t kMaxMessage = 1ULL << 30U;

  TcpLink(TcpPort& port, EndpointState& endpoint, const Depths& depths);
  TcpLink(const TcpLink&) = delete;
  TcpLink& operator=(const TcpLink&) = delete;
  ~TcpLink();

  /// One of its two.
  [[nodiscard]] std::unique_ptr<transport::Lane> make_lane(bool control);

  /// The handshake is over. Errors: Stage::connect.
  Result<void> start(Fd socket);

  /// Nothing moves by that lane from here on; what was posted is flushed.
  void break_off(bool control) noexcept;

  /// The same of both, and nothing completes any more.
  void cut() noexcept;

  void progress() noexcept;

  /// What is posted is sent by send().
  int post(const transport::Operation& operation, std::uint64_t id, bool signaled) noexcept;
  int post(const transport::Message& message, std::uint64_t id, bool control) noexcept;
  int post_receives(std::span<const transport::Receive> from, bool control,
                    std::size_t& posted) noexcept;
  void send() noexcept;

  /// Its socket wakes who sleeps: also once there is room again, where something waits for that.
  void wake_by_socket() noexcept;

  /// Ends what this end says, so that the peer sees its end, where no frame can say it any more.
  void hang_up() noexcept;

  /// Has the peer's machine say that it is there.
  void ask_machine() noexcept;

  /// Whether the peer's machine has been silent for longer than `bound`.
  [[nodiscard]] bool is_silent(Clock::time_point now, std::chrono::nanoseconds bound) noexcept;

  /// By what a request names the memory of the peer's that has this token.
  [[nodiscard]] std::uint32_t key_of(std::uint64_t token);

  /// Why nothing comes any more.
  [[nodiscard]] const std::optional<Error>& fault() const noexcept { return fault_; }

 private:
  using Frame = wire::TcpFrame;
  using Status = transport::CompletionStatus;

  struct Request {
    std::uint64_t id = 0;
    Frame::Kind kind = Frame::Kind::message;
    transport::CompletionStatus status = Status::success;
    bool reads = false;  // or is an atomic: bytes come back
    bool signaled = false;
    bool fenced = false;
    bool window = false;
    bool with_immediate = false;
    bool sent = false;  // the kernel has all of it
    bool over = false;
    std::array<std::span<std::byte>, 2> parts{};
    std::uint64_t length = 0;
    std::uint64_t remote = 0;
    std::uint64_t key = 0;
    std::uint32_t immediate = 0;
    wire::TcpOperands operands;
    std::uint64_t begun_bytes = 0;  // that were taken to be sent, or have come
  };

  struct Receive {
    std::uint64_t id = 0;
    std::span<std::byte> memory;
  };

  /// A queue of a fixed size, whose entries keep their numbers.
  template <class T>
  struct Numbered {
    explicit Numbered(std::uint32_t at_least);

    [[nodiscard]] T& operator[](std::uint32_t number) noexcept {
      return entries[number & (entries.size() - 1)];
    }

    [[nodiscard]] std::uint32_t size() const noexcept { return end - first; }

    [[nodiscard]] bool empty() const noexcept { return first == end; }

    [[nodiscard]] bool full() const noexcept { return size() == entries.size(); }

    [[nodiscard]] bool holds(std::uint32_t number) const noexcept {
      return number - first < size();
    }

    std::vector<T> entries;
    std::uint32_t first = 0;
    std::uint32_t end = 0;
  };

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

  void on_socket() noexcept override;

  bool next(transport::OutFrame& frame) noexcept override;
  void sent(std::uint64_t mark) noexcept override;
  void unreadable(std::uint64_t mark) noexcept override;
  Place place(const Frame& frame, std::uint32_t offset,
              std::span<std::byte>& memory) noexcept override;
  void taken(const Frame& frame, std::uint32_t offset, std::uint32_t bytes) noexcept override;
  void unwritable(const Frame& frame) noexcept override;
  void arrived(const Frame& frame) noexcept override;

  bool next_request(transport::OutFrame& frame) noexcept;
  bool next_answer(transport::OutFrame& frame) noexcept;
  [[nodiscard]] Request request_of(const transport::Operation& from) const noexcept;
  int post_data(const Request& request) noexcept;
  void complete_requests() noexcept;
  void lose(std::uint32_t number) noexcept;
  void complete(std::uint64_t id, Status status, std::uint32_t bytes = 0) noexcept;
  void flush_data() noexcept;
  void flush_control() noexcept;
  void shut() noexcept;

  Place place_receive(Numbered<Receive>& receives, const Frame& frame, std::uint32_t offset,
                      std::span<std::byte>& memory) noexcept;
  Place place_write(const Frame& frame, std::uint32_t offset,
                    std::span<std::byte>& memory) noexcept;
  Place place_data(const Frame& frame, std::uint32_t offset, std::span<std::byte>& memory) noexcept;
  Result<Target> target_of(const Frame& frame, Access needed) const;
  Result<Target> window_of(const Frame& frame) const;
  void on_read(const Frame& frame) noexcept;
  void on_atomic(const Frame& frame) noexcept;
  Result<std::uint64_t> carry_out(const Frame& frame) const;
  void serve_reads() noexcept;
  bool begin_answer() noexcept;
  void go_on_answers() noexcept;
  void let_go_of(Answer& answer) noexcept;
  void on_write(const Frame& frame) noexcept;
  void on_done(const Frame& frame) noexcept;
  void on_failed(const Frame& frame) noexcept;
  void on_data(const Frame& frame) noexcept;
  bool start_copy(const Frame& frame, Arriving& part) noexcept;
  void end_write(const Arriving& part) noexcept;
  void go_on_arriving() noexcept;
  void let_go_of(Arriving& part) noexcept;
  void end_arriving() noexcept;
  void reject(const Frame& frame, const Error& why) noexcept;
  void begin_engine() noexcept;
  void end_engine() noexcept;
  void break_protocol(const char* why) noexcept;
  void fail(const Error& why) noexcept;

  /// `what` behind the others. False: there is no memory, and the link has failed.
  template <class Part>
  bool keep(std::deque<Part>& parts, Part& what) noexcept;

  TcpPort& port_;
  EndpointState& endpoint_;
  std::size_t completions_ = 0;  // that the port has room for
  std::optional<transport::Stream> stream_;
  std::uint32_t watched_ = 0;  // events
  std::optional<Error> fault_;
  bool data_open_ = true;
  bool control_open_ = true;
  // A request of ours has failed, and not all of it was sent: as with a queue pair in ERROR nothing
  // more goes or comes by the data lane but the ends of what was sent before.
  bool broken_ = false;

  // Going.
  Numbered<Request> requests_;
  std::uint32_t next_request_ = 0;  // of which not all was taken to be sent
  std::uint32_t reads_ = 0;         // READs and atomics that were sent and are not over
  Numbered<Receive> words_;         // of the control lane
  std::uint32_t next_word_ = 0;
  bool asks_machine_ = false;

  // Coming.
  Numbered<Receive> receives_;
  Numbered<Receive> control_receives_;
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
  std::vector<std::uint64_t> tokens_;
};

/// One of a link's two.
class TcpLane final : public transport::Lane {
 public:
  TcpLane(TcpLink& link, transport::CompletionQueue& completions, bool control);
  TcpLane(const TcpLane&) = delete;
  TcpLane& operator=(const TcpLane&) = delete;
  ~TcpLane() override = default;

  int post(const transport::Operation& operation, std::uint64_t id) noexcept override;
  int post(const transport::Message& message, std::uint64_t id) noexcept override;
  int post(std::span<const transport::Request> chain, bool& begun) noexcept override;
  [[nodiscard]] std::unique_ptr<transport::PreparedChain> prepare(
      std::span<const transport::Request> requests) const override;
  int post(transport::PreparedChain& chain, bool fenced, bool& begun) noexcept override;
  int post_receives(std::span<const transport::Receive> receives,
                    std::size_t& posted) noexcept override;

  [[nodiscard]] std::string_view device() const noexcept override { return "tcp"; }

  Result<void> connect(const verbs::Wiring& /*wiring*/) override { return {}; }

  Result<void> to_error() override;

  [[nodiscard]] bool in_error() const noexcept override { return false; }

  void cut() noexcept override;

  Result<void> restart() override { return {}; }

  Result<void> connect_again() override { return {}; }

 private:
  int post_chain(std::span<const transport::Request> chain, bool fenced, bool& begun) noexcept;

  TcpLink& link_;
  bool control_;
};

}  // namespace hbmwire::detail
