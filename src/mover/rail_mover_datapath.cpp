// SPDX-License-Identifier: MIT
#include <algorithm>
#include <bit>
#include <utility>

#include "endpoint/endpoint_state.hpp"
#include "endpoint/send_queue_datapath.hpp"

namespace hbmwire::detail {

namespace {

using transport::Operation;
using Then = TransferState::Then;

constexpr std::uint32_t kNone = ~0U;
constexpr unsigned kOwnLane = 1;  // the bit of the endpoint's own lane in RailUse::rails

RailUse& use_of(const TransferState& transfer) noexcept {
  return transfer.worker->transfers.rail_use_of(transfer);
}

}  // namespace

/// The rails that reach both memories, as bits (RailUse::rails).
std::uint8_t RailMover::rails_of(const RegionState& local,
                                 const RemoteRegionState& there) const noexcept {
  unsigned bits = kOwnLane;
  for (const auto& rail : rails_) {
    const bool has_both = (unsigned{there.rails} >> (rail->index - 1U) & 1U) != 0 &&
                          local.with(rail->lane->nic()) != nullptr;
    if (!rail->closed && has_both) bits |= 1U << rail->index;
  }
  return static_cast<std::uint8_t>(bits);
}

bool RailMover::takes(const EndpointState& endpoint, const Move& move) const {
  const RemoteRegionState& there = move.distant();
  const bool ours = (there.connection & ~kByEngine) == endpoint.number;
  if (move.here.length_bytes < from_bytes_ || there.rails == 0 || !ours) return false;
  // Bytes that another NIC has written are visible to all only when that NIC has read them back.
  if (!move.gets && !has(there.access, Access::remote_read)) return false;
  return rails_of(move.local(), there) != kOwnLane;
}

Result<void> RailMover::start(TransferState& transfer, Operation& /*operation*/, const Move& move) {
  const RegionState& local = move.local();
  transfer.region = &local;
  transfer.move_by(*this, Railed{});
  RailUse& use = use_of(transfer);
  use = {.order = order_for(local.allocation.domain().device().pci_address),
         .rails = rails_of(local, move.distant())};
  std::ranges::copy(move.distant().rail_keys, use.remote_keys.begin() + 1);
  return {};
}

bool RailMover::finish(TransferState& transfer) noexcept {
  // The immediate may not be acknowledged yet.
  if (transfer.parts == 0) endpoint_.go_on(transfer);
  return true;
}

/// Makes the transfer the one under way, and chooses the length of its pieces.
void RailMover::begin(TransferState& transfer) noexcept {
  // Enough pieces that all rails end at about the same time, but none so small that the cost of
  // requests counts.
  constexpr std::uint64_t kUnit = std::uint64_t{64} << 10U;
  const std::uint64_t length = transfer.operation.length;
  const std::uint64_t share =
      length /
      (std::uint64_t{Rail::kPieces} * static_cast<unsigned>(std::popcount(use_of(transfer).rails)));
  job_ = &transfer;
  before_ = endpoint_.sends.head();
  piece_bytes_ = std::clamp((share + kUnit - 1) / kUnit * kUnit, kUnit, kMostPieceBytes);
  begun_bytes_ = 0;
}

/// Counts the pieces on the endpoint's own lane that are over.
void RailMover::take_own_completions() noexcept {
  while (own_count_ != 0) {
    const OwnPiece& oldest = own_[(own_head_ - own_count_) % Rail::kPieces];
    if (!endpoint_.sends.is_over_before(oldest.slot + 1)) return;
    use_of(*job_).bytes[0] += oldest.length_bytes;
    --own_count_;
  }
}

bool RailMover::idle() const noexcept {
  return own_count_ == 0 &&
         std::ranges::all_of(rails_, [](const auto& rail) { return rail->outstanding == 0; });
}

/// Bytes that a NIC brought into a device must be made visible by the same NIC. A rail that was
/// taken out cannot do that, so the get must begin again.
bool RailMover::must_begin_again(const TransferState& transfer) const noexcept {
  if (transfer.then != Then::flush) return false;
  return std::ranges::any_of(rails_, [&](const auto& rail) {
    const bool carried = use_of(transfer).bytes[rail->index] != 0 || rail->again_count != 0;
    return rail->closed && carried;
  });
}

/// Forgets everything that was moved, once the peer, too, has closed all rails that failed.
void RailMover::begin_again(TransferState& transfer) noexcept {
  for (const auto& rail : rails_) {
    if (rail->again_count != 0 && !rail->settled()) return;
  }
  for (const auto& rail : rails_) rail->again_count = 0;
  use_of(transfer).bytes = {};
  begun_bytes_ = 0;
}

bool RailMover::advance(TransferState& transfer) noexcept {
  // has_room() asks for queue pairs that are made late; those of the rails are wired up with them.
  if (endpoint_.sends.is_held()) return endpoint_.sends.has_room(1);
  if (job_ != &transfer) {
    // Another NIC does not see bytes of this NIC's gets before they are flushed.
    if (endpoint_.sends.fence_holds_back(endpoint_.movers.moving != 0)) return false;
    begin(transfer);
  }
  if (!endpoint_.sends.is_over_before(before_)) return false;
  take_own_completions();
  if (must_begin_again(transfer)) {
    if (!idle()) return false;
    begin_again(transfer);
    // The peer has yet to close a rail.
    if (must_begin_again(transfer)) return false;
  }
  while (endpoint_.phase == EndpointPhase::ready && post_next(transfer)) {
  }
  const bool all_moved =
      begun_bytes_ == transfer.operation.length && idle() &&
      std::ranges::all_of(rails_, [](const auto& rail) { return rail->again_count == 0; });
  if (endpoint_.phase != EndpointPhase::ready || !all_moved) return false;
  // The bytes have arrived: an empty WRITE carries the immediate.
  if (transfer.operation.with_immediate && !endpoint_.post_immediate(transfer)) return false;
  job_ = nullptr;
  return true;
}

/// The index of the rail with the least under way; kNone: no rail has room.
std::uint32_t RailMover::least_loaded(const RailUse& use) const noexcept {
  std::uint32_t best = kNone;
  std::uint32_t least = Rail::kPieces;
  for (std::size_t i = 0; i <= rails_.size(); ++i) {
    const std::uint32_t index = use.order[i];
    if ((unsigned{use.rails} >> index & 1U) == 0) continue;
    const bool own = index == 0;
    const bool open =
        own ? endpoint_.sends.has_room(SendQueue::kRequestsOfPost) : !rails_[index - 1]->closed;
    const std::uint32_t load = own ? own_count_ : rails_[index - 1]->outstanding;
    if (!open || load >= least) continue;
    best = index;
    least = load;
  }
  return best;
}

/// The next part to carry: one that a rail failed to carry, once the rail is settled, or a new one.
std::optional<RailPart> RailMover::next_part(const TransferState& transfer) noexcept {
  for (const auto& rail : rails_) {
    if (rail->again_count != 0 && rail->settled()) return rail->again[--rail->again_count];
  }
  const std::uint64_t length = std::min(piece_bytes_, transfer.operation.length - begun_bytes_);
  if (length == 0) return std::nullopt;
  return RailPart{std::exchange(begun_bytes_, begun_bytes_ + length), length};
}

/// Posts the next piece. False: there is nothing to post, or no room for it.
bool RailMover::post_next(TransferState& transfer) noexcept {
  const std::uint32_t index = least_loaded(use_of(transfer));
  if (index == kNone) return false;
  const auto part = next_part(transfer);
  if (!part) return false;
  if (index == 0) {
    post_own(transfer, *part);
  } else {
    post(*rails_[index - 1], transfer, *part);
  }
  return true;
}

void RailMover::post_own(TransferState& transfer, const RailPart& part) noexcept {
  Operation operation = transfer.operation;
  operation.local += part.offset_bytes;
  operation.remote += part.offset_bytes;
  operation.length = part.length_bytes;
  operation.with_immediate = false;
  const OwnPiece piece{endpoint_.sends.head(), part.length_bytes};
  if (const int result = endpoint_.sends.post(operation, &transfer); result != 0) {
    endpoint_.fail_post(result, &transfer);
    return;
  }
  own_[own_head_++ % Rail::kPieces] = piece;
  ++own_count_;
}

void RailMover::post(Rail& rail, TransferState& transfer, const RailPart& part) noexcept {
  const NicState& nic = rail.lane->nic();
  RailPiece& piece = rail.pieces[rail.head % Rail::kPieces];
  Operation operation;
  operation.opcode = transfer.operation.opcode;
  operation.local = transfer.operation.local + part.offset_bytes;
  operation.local_key = transfer.region->with(nic)->mr.get()->lkey;
  operation.remote = transfer.operation.remote + part.offset_bytes;
  operation.remote_key = use_of(transfer).remote_keys[rail.index];
  operation.length = part.length_bytes;
  const bool writes = operation.opcode != transport::Opcode::read;
  const std::uint64_t id = transport::to_id(&piece, transport::Tag::rail);
  std::array<transport::Request, 2> chain{{{operation, id}}};
  if (writes) chain[1] = {rail.nic.read_last_of(operation), id};
  bool begun = false;
  const int result = rail.lane->post(std::span(chain).first(writes ? 2 : 1), begun);
  if (result == 0 || begun) {
    piece = {.rail = &rail,
             .transfer = &transfer,
             .part = part,
             .requests = writes && result == 0 ? 2U : 1U,
             .failed = result != 0};
    ++rail.head;
    ++rail.outstanding;
    ++transfer.parts;
    ++endpoint_.movers.moving;
  } else {
    rail.again[rail.again_count++] = part;
  }
  if (result != 0) lose(rail, transport::post_error(result, nic.info.name), &transfer);
}

void RailMover::on_completion(RailPiece& piece, const transport::Completion& completion) noexcept {
  if (piece.transfer == nullptr) [[unlikely]]
    return;  // its transfer was ended by cut()
  if (!completion.good()) [[unlikely]] {
    piece.failed = true;
    on_failed(piece, completion);
  }
  if (--piece.requests == 0) settle(piece);
}

/// Ends the piece as a part of its transfer.
TransferState& RailMover::release(RailPiece& piece) noexcept {
  TransferState& transfer = *std::exchange(piece.transfer, nullptr);
  --piece.rail->outstanding;
  --transfer.parts;
  --endpoint_.movers.moving;
  return transfer;
}

/// The NIC has given back all requests of the piece.
void RailMover::settle(RailPiece& piece) noexcept {
  Rail& rail = *piece.rail;
  TransferState& transfer = release(piece);
  if (endpoint_.phase == EndpointPhase::ready) {
    if (piece.failed) {
      rail.again[rail.again_count++] = piece.part;
    } else {
      use_of(transfer).bytes[rail.index] += piece.part.length_bytes;
    }
    answer(rail);
    endpoint_.post_waiting();
    return;
  }
  if (transfer.parts == 0 && !transfer.waiting) endpoint_.ending.mark_failed(transfer);
  endpoint_.ending.settle();
}

bool RailMover::flush_next(TransferState& transfer) noexcept {
  RailUse& use = use_of(transfer);
  while (use.flushed <= rails_.size()) {
    const std::uint32_t index = use.flushed++;
    // When the endpoint ends, pieces that have failed may have brought bytes that are not counted:
    // every NIC that may have carried some flushes.
    const bool may_have = (unsigned{use.rails} >> index & 1U) != 0;
    if (endpoint_.phase == EndpointPhase::ready ? use.bytes[index] == 0 : !may_have) continue;
    WorkerNic& nic = index == 0 ? endpoint_.worker_nic : rails_[index - 1]->nic;
    transfer.operation.local_key = *transfer.region->local_key(state_of(nic.nic));
    nic.mover->start(transfer, /*remote_key=*/0);
    return true;
  }
  return false;
}

}  // namespace hbmwire::detail
