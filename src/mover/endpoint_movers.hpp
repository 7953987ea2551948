// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>

#include "endpoint/ring_link.hpp"
#include "mover/block_mover.hpp"
#include "mover/copy_mover.hpp"
#include "mover/engine_writes.hpp"
#include "mover/ipc_mover.hpp"
#include "mover/mover_table.hpp"
#include "mover/nic_movers.hpp"
#include "mover/proxied_mover.hpp"
#include "mover/rail_mover.hpp"
#include "mover/shared_mover.hpp"
#include "mover/shared_pieces.hpp"
#include "mover/staged_server.hpp"

namespace hbmwire::detail {

/// All movers of an endpoint: they carry transfers that one request of its NIC cannot. The order of
/// the rows is the order in which the movers are asked. A further way to move bytes is a class and
/// one more row: see tests/endpoint/counting_mover_test.cpp.
struct EndpointMovers {
  explicit EndpointMovers(EndpointState& endpoint)
      : blocks(endpoint),
        copy(endpoint),
        ring(endpoint),
        shared(endpoint),
        shared_reads(endpoint),
        ipc(endpoint),
        proxied(endpoint),
        pieces(endpoint),
        server(endpoint) {}

  /// Fills the table. Call it once it is known where the peer is. `staged`: the mover of the
  /// endpoint's NIC. May throw std::bad_alloc.
  void set_table(const PathRules& paths, Mover& staged) {
    table = {};
    if (paths.copies()) table.add(copy);
    if (paths.shares_memory()) table.add(shared);
    if (paths.shares()) table.add(ipc);
    table.add(staged);
    table.add(proxied);
    if (rails) table.add(*rails);
  }

  MoverTable table;
  std::uint32_t moving = 0;  // transfers that the worker's movers, further rails or TcpLink's
                             // engines have under way
  EngineWrites engine_writes;
  PieceMover piece;
  ListMover list;
  BlockMover blocks;
  SendMover send;
  CopyMover copy;
  RingLink ring;  // for messages
  SharedMover shared;
  SharedReads shared_reads;
  IpcMover ipc;
  ProxiedMover proxied;
  SharedPieces pieces;
  StagedServer server;
  std::unique_ptr<RailMover> rails;  // on further NICs; null: there are none
};

}  // namespace hbmwire::detail
