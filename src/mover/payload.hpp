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

/// The step that comes when the last part of a transfer is over.
enum class Then : std::uint8_t {
  over,
  flush,   ///< what NICs wrote is made visible to the device; over
  answer,  ///< the sender of a message is told that it was taken; over
  fail,    ///< it has failed alone, by the worker's error of it
  cut,     ///< not all of it was begun: it fails with its endpoint
};

// The state that a mover keeps of one transfer, beside TransferState::operation. A new mover needs
// none of these (std::monostate): it may have state of its own.

/// The NIC's, by several requests.
struct Pieces {
  std::uint64_t begun_bytes = 0;
};

/// A prepared list.
struct Prepared {
  RequestState* request = nullptr;
  std::uint32_t next = 0;     // of its chunks
  std::uint32_t flushed = 0;  // of its flushes
};

/// A message that has come whole, and goes to device memory.
struct Message {
  UnexpectedMessage* record = nullptr;
};

/// This end's memory is staged.
struct Staged {
  std::uint64_t token = 0;  // of the peer's key, whose process is asked
};

/// The peer's process moves it.
struct Proxied {
  enum class State : std::uint8_t { waiting, asked, answered };

  std::uint64_t token = 0;  // of the peer's key
  std::uint32_t id = 0;     // by which the peer answers
  State state = State::waiting;
};

/// An engine of this process.
struct Copied {
  std::uint64_t token = 0;          // of the peer's key
  std::uint64_t writes_before = 0;  // EngineWrites, when it was started
};

/// Many blocks.
struct Blocks {
  BlockRun* run = nullptr;
};

/// None moves it: a task's end is the transfer's.
struct Ticket {
  Task* task = nullptr;
};

/// Several NICs; RailUse has the rest.
struct Railed {};

/// An engine of the peer's, or its CPU.
struct Ipc {
  /// How it goes where that can't be.
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
