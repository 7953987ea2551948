// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "hbmwire/transfer.hpp"

#include "transport/verbs/lane_datapath.hpp"

namespace hbmwire::detail {

struct EndpointState;
struct RequestState;
struct WorkerState;

/// An operation from its start until its handle has gone. A worker has a fixed number of them. What
/// the data path touches comes first, in one cache line.
struct alignas(64) TransferState {
  enum class Status : std::uint8_t { free, active, succeeded, failed };

  WorkerState* worker = nullptr;
  EndpointState* endpoint = nullptr;  // while it is active
  TransferState* next = nullptr;      // in a list: of the free ones, or of those that wait
  std::uint64_t bytes = 0;
  std::uint64_t value = 0;
  std::uint32_t parts = 0;  // of it that were begun and are not over; 0 and not waiting: it is over
  Status status = Status::free;
  Path path = Path::host;
  Protocol protocol = Protocol::direct;
  bool held = false;     // by a Transfer
  bool waiting = false;  // in its endpoint's queue, since not all of it is posted
  bool fetches = false;  // its value comes from its place in WorkerState's results
  bool settled = true;   // of a failed one

  // While it waits: what is still to be posted.
  transport::Operation operation;
  RequestState* request = nullptr;  // of a prepared one, instead
  std::uint32_t request_at = 0;
};

}  // namespace hbmwire::detail
