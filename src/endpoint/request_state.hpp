// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "endpoint/transfer_state.hpp"
#include "transport/lane.hpp"

namespace hbmwire::detail {

struct EndpointState;
struct TransferState;
struct WorkerState;

/// Requests that were posted together; the last one is signaled.
struct Posted {
  EndpointState* endpoint = nullptr;
  TransferState* transfer = nullptr;  // none: nobody asked for it
  std::uint32_t requests = 0;         // their number
  std::uint32_t place = 0;            // of the first one in the queue
};

/// A prepared transfer: its requests as the lane takes them, in chunks that fit into the send
/// queue.
struct RequestState {
  [[nodiscard]] bool under_way() const noexcept {
    if (run == nullptr || run->status != TransferState::Status::active) return false;
    const Prepared* const list = run->as<Prepared>();
    return list != nullptr && list->request == this;
  }

  WorkerState* worker = nullptr;
  EndpointState* endpoint = nullptr;  // null: it has gone
  TransferState* run = nullptr;       // the last one; may be another's by now
  std::uint64_t bytes = 0;
  Path path = Path::host;    // the worst one of its parts, and what else is known of that part
  std::uint16_t record = 0;  // PathRecord::number
  RemoteSide remote = kUnknownRemote;
  Kind kind = Kind::put;
  bool writes_to_engines = false;  // a put to memory that engines copy, too
  // Which chunk has the immediate, if there is one: READs behind it may need further ones.
  std::optional<std::size_t> immediate_chunk;
  std::vector<std::unique_ptr<transport::PreparedChain>> chunks;
  std::vector<Posted> posted;                  // one for each chunk
  std::vector<transport::Operation> to_flush;  // of a get: a part of each device region
};

}  // namespace hbmwire::detail
