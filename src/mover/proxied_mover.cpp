// SPDX-License-Identifier: MIT
#include "mover/proxied_mover.hpp"

#include "base/guarded.hpp"
#include "endpoint/endpoint_state.hpp"

namespace hbmwire::detail {

using wire::MessageHeader;
using Outcome = MessageHeader::Outcome;
using State = Proxied::State;

Result<void> ProxiedMover::check(const RemoteRegionState& region, Access needed) const {
  const std::uint32_t number = endpoint_.number;
  const bool ours = (region.connection & ~kByEngine) == number || region.connection == ~number;
  if (!ours || region.path != Path::staged) {
    return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::post,
                                          "the remote region is another connection's",
                                          endpoint_.peer, Hint::remote_region_stale));
  }
  if (needed != Access::remote_atomic) return {};
  return tl::make_unexpected(make_error(
      Errc::not_supported, Stage::post,
      "no NIC of the peer reaches the memory, and the way that moves its bytes has no atomics",
      endpoint_.peer));
}

bool ProxiedMover::takes(const EndpointState& /*endpoint*/, const Move& move) const {
  return move.distant().path == Path::staged;
}

Result<void> ProxiedMover::start(TransferState& transfer, transport::Operation& /*operation*/,
                                 const Move& move) {
  transfer.region = &move.local();
  transfer.protocol = Protocol::proxied;
  transfer.move_by(*this, Proxied{.token = move.distant().token});
  return {};
}

bool ProxiedMover::may_ask() noexcept { return endpoint_.messages.may_ask(); }

std::uint32_t ProxiedMover::ask(TransferState& transfer, const transport::Operation& part,
                                std::uint64_t token, std::uint32_t remote_key) noexcept {
  MessageHeader header;
  header.kind =
      part.opcode == transport::Opcode::read ? MessageHeader::Kind::get : MessageHeader::Kind::put;
  header.tag = token;
  header.length = part.length;
  header.address = part.local;
  header.remote_key = remote_key;
  header.path = transfer.own_side();
  if (const int result = endpoint_.messages.ask(transfer, header, part.remote); result != 0) {
    endpoint_.fail_post(result, &transfer);
    return 0;
  }
  return header.id;
}

bool ProxiedMover::advance(TransferState& transfer) noexcept {
  const Proxied& what = *transfer.as<Proxied>();
  if (what.state == State::waiting) begin(transfer);
  if (what.state != State::answered || endpoint_.phase != EndpointPhase::ready) return false;
  const bool tells = transfer.operation.with_immediate && transfer.then != Then::fail;
  return !tells || endpoint_.post_immediate(transfer);
}

void ProxiedMover::begin(TransferState& transfer) noexcept {
  if (endpoint_.ending.peer_left()) {
    endpoint_.fail(make_error(Errc::peer_failed, Stage::complete, "the peer has said goodbye",
                              endpoint_.peer, Hint::peer_gone),
                   &transfer);
    return;
  }
  if (!may_ask()) return endpoint_.look_soon();  // a receive for the answer may be free by then
  Proxied& what = *transfer.as<Proxied>();
  const auto key = guarded(Stage::complete, [&] { return key_for_peer(transfer); });
  if (!key) {
    WorkerState& worker = *endpoint_.worker;
    worker.transfers.set_error(transfer, key.error());
    transfer.then = Then::fail;
    what.state = State::answered;
    return;
  }
  what.id = ask(transfer, transfer.operation, what.token, *key);
  if (what.id != 0) what.state = State::asked;
}

Result<std::uint32_t> ProxiedMover::key_for_peer(TransferState& transfer) {
  const Access needed = transfer.operation.opcode == transport::Opcode::read ? Access::remote_write
                                                                             : Access::remote_read;
  if (has(transfer.region->access, needed))
    return transfer.region->with(*endpoint_.nic)->mr.get()->rkey;
  HBMWIRE_TRY_ASSIGN(key_, MemoryKeyState::of_part(*transfer.region, transfer.operation.local,
                                                   transfer.bytes, needed));
  return key_->remote_key_on(*endpoint_.nic);
}

Error ProxiedMover::refusal_of(Outcome outcome) const noexcept {
  if (outcome == Outcome::denied) {
    return make_error(Errc::permission_denied, Stage::complete,
                      "the peer's key is wrong, was revoked, has expired, or does not allow it",
                      endpoint_.peer, Hint::remote_key);
  }
  return make_error(Errc::peer_failed, Stage::complete,
                    "the peer's process could not move the bytes; its log says why",
                    endpoint_.peer);
}

void ProxiedMover::on_finished(TransferState& transfer, const MessageHeader& answer) noexcept {
  if (!transfer.mover->on_answer(transfer, answer)) [[unlikely]]
    endpoint_.break_protocol("the peer answered a question that was not asked");
}

bool ProxiedMover::on_answer(TransferState& transfer, const MessageHeader& answer) noexcept {
  Proxied& what = *transfer.as<Proxied>();
  const bool taken = answer.outcome == Outcome::taken;
  if (answer.id != what.id || (taken && answer.length != transfer.bytes)) return false;
  endpoint_.messages.end_asking(transfer, answer.id);
  WorkerState& worker = *endpoint_.worker;
  ++worker.event_count;
  what.state = State::answered;
  key_.reset();
  if (taken) return true;
  // A request that the key forbids fails the endpoint, as with a NIC.
  if (answer.outcome == Outcome::denied) {
    endpoint_.fail(refusal_of(answer.outcome), &transfer);
  } else {
    worker.transfers.set_error(transfer, refusal_of(answer.outcome));
    transfer.then = Then::fail;
  }
  return true;
}

bool ProxiedMover::finish(TransferState& transfer) noexcept {
  // The question, or the immediate, may not be acknowledged yet.
  if (transfer.parts == 0) endpoint_.go_on(transfer);
  return true;
}

void ProxiedMover::cancel(EndpointState& /*endpoint*/) noexcept { key_.reset(); }

}  // namespace hbmwire::detail
