// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "hbmwire/low_level/connection.hpp"
#include "hbmwire/low_level/native.hpp"
#include "hbmwire/nic.hpp"

namespace hbmwire::verbs {
struct Wiring;
}  // namespace hbmwire::verbs

// The interface between an endpoint and its transports. An endpoint posts to lanes and polls
// completion queues in the same way, whether a queue pair of a NIC carries them (transport/verbs)
// or a TCP connection (transport/tcp).
namespace hbmwire::transport {

/// Operations on the peer's memory. The numbers are those of enum ibv_wr_opcode (ibv_post_send(3)),
/// so that no translation is needed.
enum class Opcode : std::uint8_t { write = 0, read = 4, compare_swap = 5, fetch_add = 6 };

[[nodiscard]] constexpr bool is_atomic(Opcode opcode) noexcept {
  return opcode >= Opcode::compare_swap;
}

/// The result of a request. The numbers are those of enum ibv_wc_status (ibv_poll_cq(3)), because
/// errors name them.
enum class CompletionStatus : std::uint8_t {
  success = 0,
  length = 1,  ///< the message was longer than its receive
  local_protection = 4,
  flushed = 5,  ///< the lane broke before the request was executed
  local_access = 8,
  remote_request = 9,
  remote_access = 10,
  remote_operation = 11,
};

/// Memory that the lane's device reads or writes.
struct Element {
  std::uint64_t address = 0;
  std::uint32_t length = 0;
  std::uint32_t key = 0;
};

/// One operation for the send queue. An operation that is longer than a message is posted in
/// pieces, the front first.
struct Operation {
  std::uint64_t local = 0;   ///< address of `length` bytes
  std::uint64_t remote = 0;  ///< address
  std::uint64_t length = 0;
  std::uint32_t local_key = 0;
  std::uint32_t remote_key = 0;
  std::uint64_t compare_or_add = 0;  ///< for atomics
  std::uint64_t swap = 0;
  std::uint32_t immediate = 0;
  Opcode opcode = Opcode::write;
  bool with_immediate = false;  ///< a WRITE whose last piece carries the immediate
  bool inlined = false;
  bool fenced = false;  ///< starts only after earlier READs and atomics have completed
  /// A WRITE after which its poster must post a READ of its last byte, which flushes it.
  bool flushed = false;
  /// `remote_key` came in a message from the peer, and is valid for this operation only.
  bool in_window = false;
};

/// An operation in a chain. It is at most one message long.
struct Request {
  Operation operation;
  std::uint64_t id = 0;
  bool signaled = true;  ///< else it completes only if it fails
};

/// A SEND of a header and the payload after it.
struct Message {
  Element header;
  Element payload = {};  ///< length 0: no payload
  bool fenced = false;
  bool inlined = false;
};

/// A receive to post: its id, and the memory for a message.
struct Receive {
  std::uint64_t id = 0;
  Element memory;
};

/// The completion of a request or a receive, whatever carried it.
struct Completion {
  /// The kind of request that used up a receive.
  enum class By : std::uint8_t {
    message,
    message_with_immediate,
    write,  ///< a WRITE with immediate
  };

  std::uint64_t id = 0;
  std::uint32_t bytes = 0;  ///< of a receive that succeeded
  std::uint32_t immediate = 0;
  std::uint32_t queue_pair = 0;  ///< of a NIC
  CompletionStatus status = CompletionStatus::success;
  By by = By::message;

  [[nodiscard]] bool good() const noexcept { return status == CompletionStatus::success; }
};

/// The error of a failed completion, with its usual cause.
[[nodiscard]] inline Error completion_error(const Completion& completion,
                                            std::string_view subject) noexcept {
  return native::completion_error(static_cast<int>(completion.status), subject);
}

/// The error of a request that could not be posted. `result` is that of Lane::post().
[[nodiscard]] inline Error post_error(int result, std::string_view device) noexcept {
  return system_error(Stage::post, "ibv_post_send", result, device);
}

/// The completions of several lanes.
class CompletionQueue {
 public:
  CompletionQueue(const CompletionQueue&) = delete;
  CompletionQueue& operator=(const CompletionQueue&) = delete;
  virtual ~CompletionQueue() = default;

  [[nodiscard]] bool by_nic() const noexcept { return by_nic_; }

  /// Returns how many completions were put into `into`; negative: the queue is lost and brings no
  /// more. Also makes the progress that its lanes need.
  virtual int poll(std::span<Completion> into) noexcept = 0;

  /// Makes the worker's descriptors readable at the next completion.
  virtual Result<void> arm() = 0;

  /// Marks the queue as lost: it brings no more completions, and no lane may join it.
  virtual void lose() noexcept = 0;

 protected:
  explicit CompletionQueue(bool by_nic) noexcept : by_nic_(by_nic) {}

 private:
  bool by_nic_;
};

/// The addresses of one request in a chain.
struct Aim {
  std::uint64_t local = 0;   ///< address of `length` bytes
  std::uint64_t remote = 0;  ///< address
  std::uint32_t length = 0;
  std::uint32_t local_key = 0;
  std::uint32_t remote_key = 0;
};

/// Requests that one lane has prepared, and that are posted together any number of times, unchanged
/// or with other addresses. They may be aimed at other addresses as soon as they are posted.
class PreparedChain {
 public:
  PreparedChain(const PreparedChain&) = delete;
  PreparedChain& operator=(const PreparedChain&) = delete;
  virtual ~PreparedChain() = default;

  /// The number of requests in it.
  [[nodiscard]] std::uint32_t size() const noexcept { return size_; }

  /// Sets the addresses of request `index`, counted among all that were prepared.
  virtual void aim(std::size_t index, const Aim& at) noexcept = 0;

  /// From now on the chain consists of its first `size` requests, all with `opcode`. The last one
  /// is signaled and has the id `last`; the others are unsignaled and have the id `part`.
  virtual void close(std::uint32_t size, Opcode opcode, std::uint64_t part,
                     std::uint64_t last) noexcept = 0;

 protected:
  explicit PreparedChain(std::size_t size) noexcept : size_(static_cast<std::uint32_t>(size)) {}

  void set_size(std::uint32_t size) noexcept { size_ = size; }

 private:
  std::uint32_t size_;
};

/// A queue to which receives are posted.
class ReceiveQueue {
 public:
  ReceiveQueue(const ReceiveQueue&) = delete;
  ReceiveQueue& operator=(const ReceiveQueue&) = delete;
  virtual ~ReceiveQueue() = default;

  /// Returns the errno of ibv_post_recv(3). `posted` is the number of receives that were posted,
  /// even if it fails.
  virtual int post_receives(std::span<const Receive> receives, std::size_t& posted) noexcept = 0;

  /// The name of its device, for errors.
  [[nodiscard]] virtual std::string_view device() const noexcept = 0;

 protected:
  ReceiveQueue() = default;
};

/// One path of a connection to its peer: a queue of requests, and a queue of receives, which lanes
/// may share.
///
/// Requests complete in the order in which they were posted. An unsignaled one completes with a
/// later signaled one. A post returns 0 or the errno of ibv_post_send(3), also over TCP: ENOMEM
/// means that the queue is full. `begun` is set if the post failed after the first request: the
/// requests before the failed one are in the queue then. A lane in ERROR moves nothing any more:
/// its requests are flushed, both those that were posted and those that are posted later.
///
/// post() and poll() of transport/lane_datapath.hpp avoid the virtual call if a NIC carries the
/// lane.
class Lane : public ReceiveQueue {
 public:
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  ~Lane() override = default;

  [[nodiscard]] bool by_nic() const noexcept { return by_nic_; }

  /// The number of bytes that a request may carry inline: their memory is free as soon as it is
  /// posted.
  [[nodiscard]] std::uint32_t inline_bytes() const noexcept { return inline_bytes_; }

  /// All that the peer must know about this lane, including its longest message.
  [[nodiscard]] const ConnectionAddress& local() const noexcept { return local_; }

  [[nodiscard]] CompletionQueue& completions() const noexcept { return completions_; }

  virtual int post(const Operation& operation, std::uint64_t id) noexcept = 0;
  virtual int post(const Message& message, std::uint64_t id) noexcept = 0;

  /// Posts a chain of at most kMostChain requests.
  virtual int post(std::span<const Request> chain, bool& begun) noexcept = 0;
  static constexpr std::size_t kMostChain = 2;

  /// Prepares requests. Not for the data path.
  virtual std::unique_ptr<PreparedChain> prepare(std::span<const Request> requests) const = 0;

  /// `fenced`: whether the chain's first request is fenced, this time only.
  virtual int post(PreparedChain& chain, bool fenced, bool& begun) noexcept = 0;

  /// Receives may be posted before this, and should be. Does nothing if the handshake's connection
  /// carries the lane. Errors: Stage::connect.
  virtual Result<void> connect(const verbs::Wiring& wiring) = 0;

  /// Moves the lane to ERROR. Errors: Stage::connect.
  virtual Result<void> to_error() = 0;

  /// For a lane in ERROR. Whether it will take no more of the receives that it shares with other
  /// lanes: those that it took have completed, or can be polled. Not for the data path.
  [[nodiscard]] virtual bool took_last_receive() noexcept { return true; }

  /// Whether the device has the lane in ERROR. Returns false if the device does not tell.
  [[nodiscard]] virtual bool in_error() const noexcept = 0;

  /// Stops all movement on the lane. Outstanding requests may or may not complete.
  virtual void cut() noexcept = 0;

  /// Moves a drained lane in ERROR back to the state in which it takes receives. connect_again()
  /// then connects it as before. Errors: Stage::connect.
  virtual Result<void> restart() = 0;
  virtual Result<void> connect_again() = 0;

 protected:
  Lane(CompletionQueue& completions, bool by_nic) noexcept
      : completions_(completions), by_nic_(by_nic) {}

  ConnectionAddress local_;
  std::uint32_t inline_bytes_ = 0;

 private:
  CompletionQueue& completions_;
  bool by_nic_;
};

}  // namespace hbmwire::transport
