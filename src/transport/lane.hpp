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

// An endpoint posts to these and polls them, whatever carries them: a queue pair of a NIC
// (transport/verbs), or a TCP connection (transport/tcp).
namespace hbmwire::transport {

/// The numbers are those of enum ibv_wr_opcode (ibv_post_send(3)), so that none is translated.
enum class Opcode : std::uint8_t { write = 0, read = 4, compare_swap = 5, fetch_add = 6 };

[[nodiscard]] constexpr bool is_atomic(Opcode opcode) noexcept {
  return opcode >= Opcode::compare_swap;
}

/// How a request ended. The numbers are those of enum ibv_wc_status (ibv_poll_cq(3)), by which
/// errors name it.
enum class CompletionStatus : std::uint8_t {
  success = 0,
  length = 1,  ///< a message was longer than its receive
  local_protection = 4,
  flushed = 5,  ///< the lane broke before the request was carried out
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

/// One operation of the send queue, in the words of the caller. An operation longer than a message
/// is posted in pieces, from the front.
struct Operation {
  std::uint64_t local = 0;   ///< address, of `length` bytes
  std::uint64_t remote = 0;  ///< address
  std::uint64_t length = 0;
  std::uint32_t local_key = 0;
  std::uint32_t remote_key = 0;
  std::uint64_t compare_or_add = 0;  ///< of atomics
  std::uint64_t swap = 0;
  std::uint32_t immediate = 0;
  Opcode opcode = Opcode::write;
  bool with_immediate = false;  ///< a WRITE whose last piece carries it
  bool inlined = false;
  bool fenced = false;  ///< begins after the READs and atomics before it
  /// A WRITE behind which its poster has to post a READ of its last byte.
  bool flushed = false;
  /// `remote_key` came in a message of the peer's, for this operation alone.
  bool in_window = false;
};

/// An operation in a chain. Its length is that of one message at most.
struct Request {
  Operation operation;
  std::uint64_t id = 0;
  bool signaled = true;  ///< else it completes only when it fails
};

/// A SEND of a header and what follows it.
struct Message {
  Element header;
  Element payload = {};  ///< of length 0: nothing follows
  bool fenced = false;
  bool inlined = false;
};

struct Receive {
  std::uint64_t id = 0;
  Element memory;
};

struct Completion {
  /// The request that used a receive up.
  enum class By : std::uint8_t {
    message,
    message_with_immediate,
    write,  ///< a WRITE with an immediate
  };

  std::uint64_t id = 0;
  std::uint32_t bytes = 0;  ///< of a receive that succeeded
  std::uint32_t immediate = 0;
  std::uint32_t queue_pair = 0;  ///< of a NIC's
  CompletionStatus status = CompletionStatus::success;
  By by = By::message;

  [[nodiscard]] bool good() const noexcept { return status == CompletionStatus::success; }
};

/// The error of a completion that is not good, with what usually causes it.
[[nodiscard]] inline Error completion_error(const Completion& completion,
                                            std::string_view subject) noexcept {
  return native::completion_error(static_cast<int>(completion.status), subject);
}

/// A request could not be posted: `result` of Lane::post().
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

  /// How many were put into `into`; negative: it brings no more. Goes on with what its lanes do.
  virtual int poll(std::span<Completion> into) noexcept = 0;

  /// Has the worker's descriptors become readable with the next completion.
  virtual Result<void> arm() = 0;

  /// It brings no more completions: no lane joins it from here on.
  virtual void lose() noexcept = 0;

 protected:
  explicit CompletionQueue(bool by_nic) noexcept : by_nic_(by_nic) {}

 private:
  bool by_nic_;
};

/// Where one request of a chain goes.
struct Aim {
  std::uint64_t local = 0;   ///< address, of `length` bytes
  std::uint64_t remote = 0;  ///< address
  std::uint32_t length = 0;
  std::uint32_t local_key = 0;
  std::uint32_t remote_key = 0;
};

/// Requests that are posted together, again and again, by the lane that has prepared them: as they
/// were, or aimed elsewhere each time. Once they are posted they may be aimed anew.
class PreparedChain {
 public:
  PreparedChain(const PreparedChain&) = delete;
  PreparedChain& operator=(const PreparedChain&) = delete;
  virtual ~PreparedChain() = default;

  /// Its requests.
  [[nodiscard]] std::uint32_t size() const noexcept { return size_; }

  /// The `index`th one, of all that were prepared.
  virtual void aim(std::size_t index, const Aim& at) noexcept = 0;

  /// From here on the chain is its first `size` requests, all of `opcode`: the last one signaled,
  /// by `last`, the others by `part`.
  virtual void close(std::uint32_t size, Opcode opcode, std::uint64_t part,
                     std::uint64_t last) noexcept = 0;

 protected:
  explicit PreparedChain(std::size_t size) noexcept : size_(static_cast<std::uint32_t>(size)) {}

  void set_size(std::uint32_t size) noexcept { size_ = size; }

 private:
  std::uint32_t size_;
};

/// Where receives are posted.
class ReceiveQueue {
 public:
  ReceiveQueue(const ReceiveQueue&) = delete;
  ReceiveQueue& operator=(const ReceiveQueue&) = delete;
  virtual ~ReceiveQueue() = default;

  /// `errno` of ibv_post_recv(3). `posted`: how many of them are, whatever it returns.
  virtual int post_receives(std::span<const Receive> receives, std::size_t& posted) noexcept = 0;

  /// The name of its device, for errors.
  [[nodiscard]] virtual std::string_view device() const noexcept = 0;

 protected:
  ReceiveQueue() = default;
};

/// One way of a connection to its peer: a queue of requests and one of receives, which lanes may
/// share.
///
/// Requests complete in the order in which they were posted; those that are not signaled do so by a
/// later one. A post returns 0 or the errno of ibv_post_send(3), which over TCP has the same cause:
/// ENOMEM, the queue is full. `begun`: it failed behind the first request, so what precedes the one
/// that failed is in the queue. Once a lane is in ERROR nothing moves by it; what was posted, and
/// what is posted from there on, is flushed.
///
/// post() and poll() of transport/lane_datapath.hpp do without the virtual call where a NIC carries
/// the lane.
class Lane : public ReceiveQueue {
 public:
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  ~Lane() override = default;

  [[nodiscard]] bool by_nic() const noexcept { return by_nic_; }

  /// Bytes that a request may bring along: their memory is free once it is posted.
  [[nodiscard]] std::uint32_t inline_bytes() const noexcept { return inline_bytes_; }

  /// All that the peer has to know of it, the longest message included.
  [[nodiscard]] const ConnectionAddress& local() const noexcept { return local_; }

  [[nodiscard]] CompletionQueue& completions() const noexcept { return completions_; }

  virtual int post(const Operation& operation, std::uint64_t id) noexcept = 0;
  virtual int post(const Message& message, std::uint64_t id) noexcept = 0;

  /// A chain of kMostChain requests at most.
  virtual int post(std::span<const Request> chain, bool& begun) noexcept = 0;
  static constexpr std::size_t kMostChain = 2;

  /// Not on the data path.
  virtual std::unique_ptr<PreparedChain> prepare(std::span<const Request> requests) const = 0;

  /// `fenced`: the first one of it, this time.
  virtual int post(PreparedChain& chain, bool fenced, bool& begun) noexcept = 0;

  /// Receives may be posted before, and should be. Nothing to do where the handshake's connection
  /// carries the lane. Errors: Stage::connect.
  virtual Result<void> connect(const verbs::Wiring& wiring) = 0;

  /// To ERROR. Errors: Stage::connect.
  virtual Result<void> to_error() = 0;

  /// In ERROR: it takes no receive any more of those that it shares with others, and what it took
  /// has completed, or can be polled. Not on the data path.
  [[nodiscard]] virtual bool took_last_receive() noexcept { return true; }

  /// Whether the device has it in ERROR. No, where it can't say.
  [[nodiscard]] virtual bool in_error() const noexcept = 0;

  /// Nothing moves by it any more, and whether something of it completes is not promised.
  virtual void cut() noexcept = 0;

  /// Back to where it takes receives: of one that is in ERROR, and drained; and connects it as it
  /// was before. Errors: Stage::connect.
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
