// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <utility>

#include "base/guarded.hpp"
#include "endpoint/endpoint_state.hpp"

// Memory of the peer that no NIC of its machine reaches: its process moves the bytes, when a put or
// get asks it to. The same the other way round.
namespace hbmwire::detail {

namespace {

using wire::MessageHeader;
using Kind = TransferState::Kind;
using Outcome = MessageHeader::Outcome;
using Then = TransferState::Then;

}  // namespace

Result<void> EndpointState::check_proxied(const RemoteRegionState& region, Access needed) const {
  const bool ours = (region.connection & ~kByEngine) == number || region.connection == ~number;
  if (!ours || region.path != Path::staged) {
    return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::post,
                                          "the remote region is another connection's", peer,
                                          Hint::remote_region_stale));
  }
  if (needed != Access::remote_atomic) return {};
  return tl::make_unexpected(make_error(
      Errc::not_supported, Stage::post,
      "no NIC of the peer reaches the memory, and what moves its bytes has no atomics", peer));
}

Result<void> EndpointState::stage(TransferState& transfer, const Slice& here,
                                  const RemoteRegionState& there) {
  if (here.length_bytes == 0) return {};
  const RegionState& region = here.region->state();
  const bool over_tcp = pieces.carry(region, there, here.length_bytes);
  const bool asks = there.path == Path::staged || over_tcp;
  if (!asks && !paths.is_staged(region.path)) return {};
  transfer.region = &region;
  transfer.message = nullptr;
  transfer.peer_id = 0;
  transfer.kind = is_staged(transfer) ? Kind::staged : Kind::proxied;
  if (!asks) return {};
  transfer.protocol = Protocol::proxied;
  transfer.tag = there.token;
  if (over_tcp) transfer.path = Path::staged;
  if (transfer.kind == Kind::proxied) return {};
  if (const auto opened = guarded(Stage::post, [&] { return pieces.open(); }); !opened) {
    worker->give_back(transfer);
    return opened;
  }
  return {};
}

std::uint32_t EndpointState::ask(TransferState& transfer, const transport::Operation& part,
                                 std::uint32_t remote_key) noexcept {
  MessageHeader header;
  header.kind =
      part.opcode == transport::Opcode::read ? MessageHeader::Kind::get : MessageHeader::Kind::put;
  header.id = mail.sent.open(transfer);
  header.tag = transfer.tag;
  header.length = part.length;
  header.address = part.local;
  header.remote_key = remote_key;
  header.path = own_side(transfer);
  ++transfer.parts;  // until the peer has answered
  static_assert(wire::kPlaceBytes <= Mailbox::kBesideHeader, "it is copied behind the header");
  std::array<std::byte, wire::kPlaceBytes> place;
  wire::encode_place(part.remote, place.data());
  transport::Operation payload;
  payload.local = reinterpret_cast<std::uint64_t>(place.data());
  payload.length = place.size();
  if (const int result = post_message(header, &payload, &transfer); result != 0) {
    mail.sent.close(header.id);
    --transfer.parts;
    fail(system_error(Stage::post, "ibv_post_send", result, nic->info.name), &transfer);
    return 0;
  }
  mail.credits.spend();
  return header.id;
}

bool EndpointState::go_on_proxied(TransferState& transfer) noexcept {
  if (asking == Asking::not_yet) begin_asking(transfer);
  if (asking != Asking::answered || phase != EndpointPhase::ready) return false;
  const bool tells = transfer.operation.with_immediate && transfer.then != Then::fail;
  return !tells || post_immediate(transfer);
}

void EndpointState::begin_asking(TransferState& transfer) noexcept {
  if (ending.peer_left()) {
    fail(make_error(Errc::peer_failed, Stage::complete, "the peer has said goodbye", peer,
                    Hint::peer_gone),
         &transfer);
    return;
  }
  if (!may_ask()) return;
  const auto key = guarded(Stage::complete, [&] { return key_for_peer(transfer); });
  if (!key) {
    worker->errors[worker->index_of(transfer)] = key.error();
    transfer.then = Then::fail;
    asking = Asking::answered;
    return;
  }
  transfer.id = ask(transfer, transfer.operation, *key);
  if (transfer.id != 0) asking = Asking::asked;
}

Result<std::uint32_t> EndpointState::key_for_peer(TransferState& transfer) {
  const Access needed = transfer.operation.opcode == transport::Opcode::read ? Access::remote_write
                                                                             : Access::remote_read;
  if (has(transfer.region->access, needed)) return transfer.region->with(*nic)->mr.get()->rkey;
  HBMWIRE_TRY_ASSIGN(asked_key, open_part(transfer, needed));
  return remote_key_of(*asked_key);
}

Error EndpointState::refusal_of(Outcome outcome) const noexcept {
  if (outcome == Outcome::denied) {
    return make_error(Errc::permission_denied, Stage::complete,
                      "the peer's key is wrong, was revoked, has expired, or does not allow it",
                      peer, Hint::remote_key);
  }
  return make_error(Errc::peer_failed, Stage::complete,
                    "the peer's process could not move the bytes; its log says why", peer);
}

void EndpointState::on_proxied(TransferState& transfer, const MessageHeader& header) noexcept {
  const bool taken = header.outcome == Outcome::taken;
  const bool fits = transfer.kind == Kind::staged
                        ? worker_nic.staged->on_proxied(transfer, header)
                        : header.id == transfer.id && (!taken || header.length == transfer.bytes);
  if (!fits) [[unlikely]]
    return refuse_message("the peer answered what it was not asked");
  mail.sent.close(header.id);
  --transfer.parts;
  ++worker->event_count;
  if (transfer.kind == Kind::staged) return;
  asking = Asking::answered;
  asked_key.reset();
  if (taken) return;
  // As where a NIC finds that out.
  if (header.outcome == Outcome::denied) return fail(refusal_of(header.outcome), &transfer);
  worker->errors[worker->index_of(transfer)] = refusal_of(header.outcome);
  transfer.then = Then::fail;
}

void EndpointState::finish_proxied(TransferState& transfer) noexcept {
  asking = Asking::not_yet;
  // The question, or the immediate, may not be acknowledged yet.
  if (transfer.parts == 0) go_on(transfer);
}

bool EndpointState::post_immediate(TransferState& transfer) noexcept {
  if (room() < 2 || !mail.credits.may_send()) return false;
  transport::Operation nothing;
  nothing.with_immediate = true;
  nothing.immediate = transfer.operation.immediate;
  if (const int result = post(nothing, &transfer); result != 0) {
    fail(system_error(Stage::post, "ibv_post_send", result, nic->info.name), &transfer);
    return false;
  }
  mail.credits.spend();
  return true;
}

void EndpointState::on_request(const MessageHeader& header, std::uint64_t at) noexcept {
  if (link != nullptr && pieces.find(header.address, header.length) == nullptr)
    return refuse_message("the peer asks in a message for what has frames of its own over TCP");
  if (!paths.admits(Path::staged)) return answer_request(header.id, Outcome::refused, 0);
  const auto taken = guarded(Stage::complete, [&]() -> Result<void> {
    HBMWIRE_TRY(worker->prepare_staging(worker_nic));
    to_serve.push_back({header, at});
    return {};
  });
  if (!taken) return answer_request(header.id, Outcome::refused, 0);
  mail.pressing = true;
}

void EndpointState::answer_request(std::uint32_t id, Outcome outcome,
                                   std::uint64_t length) noexcept {
  MessageHeader header;
  header.kind = MessageHeader::Kind::finished;
  header.id = id;
  header.outcome = outcome;
  header.length = outcome == Outcome::taken ? length : 0;
  answer(header);
  owe();
}

void EndpointState::on_moved_for_peer() noexcept { ending.settle(); }

}  // namespace hbmwire::detail
