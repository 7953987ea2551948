// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <variant>

#include "hbmwire/transfer.hpp"

namespace hbmwire::detail {

class Mover;
class Task;
struct BlockRun;
struct RequestState;
struct UnexpectedMessage;

/// The step after the last part of a transfer is over.
enum class Then : std::uint8_t {
  over,
  flush,   ///< bytes that NICs wrote are made visible to the device, then it is over
  answer,  ///< the sender of the message is told that it was taken, then it is over
  fail,    ///< the transfer has failed alone, with the error in TransferPool
  cut,     ///< the transfer had not begun completely: it fails with its endpoint
};

// The state that a mover keeps for one transfer, beside TransferState::operation. A new mover need
// not add a type here: it may use std::monostate, and keep its own state.

/// The NIC carries it by several requests.
struct Pieces {
  std::uint64_t begun_bytes = 0;
};

/// A prepared list.
struct Prepared {
  RequestState* request = nullptr;
  std::uint32_t next = 0;     // the next chunk
  std::uint32_t flushed = 0;  // the next flush
};

/// A message that is here completely, and goes to device memory.
struct Message {
  UnexpectedMessage* record = nullptr;
};

/// This end's memory is staged.
struct Staged {
  std::uint64_t token = 0;  // of the peer's key; the peer's process finds the memory by it
};

/// The peer's process moves the bytes.
struct Proxied {
  enum class State : std::uint8_t { waiting, asked, answered };

  std::uint64_t token = 0;  // of the peer's key
  std::uint32_t id = 0;     // by which the peer answers
  State state = State::waiting;
};

/// An engine of this process copies.
struct Copied {
  std::uint64_t token = 0;          // of the peer's key
  std::uint64_t writes_before = 0;  // EngineWrites::written() when the transfer was started
};

/// Many blocks.
struct Blocks {
  BlockRun* run = nullptr;
};

/// No mover: the transfer ends with a task.
struct Ticket {
  Task* task = nullptr;
};

/// By several NICs; RailUse has the rest.
struct Railed {};

/// An engine or the CPU of the peer's process copies.
struct Ipc {
  /// How the transfer goes if IPC fails.
  struct Fallback {
    Mover* mover = nullptr;  // null: there is no other way
    std::variant<std::monostate, Pieces, Staged, Proxied, Railed> payload;
    bool flushed = false;  // Operation::flushed
    Then then = Then::over;
    Path path = Path::host;
    Protocol protocol = Protocol::direct;
  };

  Copied copied;
  Fallback fallback;
};

using Payload = std::variant<std::monostate, Pieces, Prepared, Message, Staged, Proxied, Copied,
                             Ipc, Railed, Blocks, Ticket>;

}  // namespace hbmwire::detail
