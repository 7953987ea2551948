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
  TransferState* transfer = nullptr;  // null: the library's own request
  std::uint32_t requests = 0;         // number of requests
  std::uint32_t place = 0;            // place of the first one in the queue
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
  EndpointState* endpoint = nullptr;  // null if the endpoint has gone
  TransferState* run = nullptr;       // the last run; may be another operation's transfer by now
  TransferKind kind = TransferKind::put;
  std::uint64_t bytes = 0;
  Path path = Path::host;    // the worst path of its parts; the next two members describe the same
                             // part
  std::uint16_t record = 0;  // PathRecord::number
  RemoteSide remote = kUnknownRemote;
  bool writes_to_engines = false;  // a put to memory that engines copy, too
  // The chunk with the immediate, if there is one. READs behind the immediate may take further
  // chunks.
  std::optional<std::size_t> immediate_chunk;
  std::vector<std::unique_ptr<transport::PreparedChain>> chunks;
  std::vector<Posted> posted;                  // one for each chunk
  std::vector<transport::Operation> to_flush;  // of a get: one part of each device region
};

}  // namespace hbmwire::detail
