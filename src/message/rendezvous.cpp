// SPDX-License-Identifier: MIT
#include "message/rendezvous.hpp"

#include <utility>

#include "base/guarded.hpp"
#include "endpoint/endpoint_state.hpp"

namespace hbmwire::detail {

using Outcome = wire::MessageHeader::Outcome;

Rendezvous::Rendezvous(EndpointState& endpoint, Outbox& outbox, Receives& receives,
                       std::uint32_t receive_depth, std::uint32_t most_asked)
    : endpoint_(endpoint),
      outbox_(outbox),
      receives_(receives),
      asked_(most_asked),
      written_(receive_depth),
      keys_(receive_depth),
      asked_watch_(asked_),
      written_watch_(written_) {}

Result<std::uint32_t> Rendezvous::key_for_writing(TransferState& transfer) noexcept {
  // Over TCP the key is the id of the receive, which TcpLink looks up.
  if (endpoint_.paths.by_tcp()) return transfer.id;
  const Registration* const ours = transfer.region->with(*endpoint_.nic);
  if (ours != nullptr && has(transfer.region->access, Access::remote_write))
    return ours->mr.get()->rkey;
  return open_to_peer(transfer);
}

Result<std::uint32_t> Rendezvous::open_to_peer(TransferState& transfer) noexcept {
  if (endpoint_.is_staged(transfer)) {
    return tl::make_unexpected(
        make_error(Errc::not_supported, Stage::complete,
                   "neither end's NIC reaches the other's memory: the sender's is not open to "
                   "reading, and this one is staged",
                   endpoint_.peer));
  }
  HBMWIRE_TRY_ASSIGN(auto key, guarded(Stage::complete, [&] {
                       return MemoryKeyState::of_part(*transfer.region, transfer.operation.local,
                                                      transfer.bytes, Access::remote_write);
                     }));
  const std::uint32_t remote_key = key->remote_key_on(*endpoint_.nic);
  keys_[Slots::place_of(transfer.id)] = std::move(key);
  return remote_key;
}

void Rendezvous::note_refusal(TransferState& transfer, Outcome outcome) noexcept {
  transfer.then = Then::fail;
  WorkerState& worker = *endpoint_.worker;
  if (outcome == Outcome::let_go) {
    return worker.transfers.set_error(
        transfer, make_error(Errc::cancelled, Stage::complete,
                             "the receiver let the message go without receiving it", endpoint_.peer,
                             Hint::message_let_go));
  }
  worker.transfers.set_error(
      transfer, outcome == Outcome::too_long
                    ? make_error(Errc::invalid_argument, Stage::complete,
                                 "the message is longer than its receive", endpoint_.peer,
                                 Hint::message_truncated)
                    : make_error(Errc::peer_failed, Stage::complete,
                                 "the receiver could not open its memory", endpoint_.peer));
}

}  // namespace hbmwire::detail
