// SPDX-License-Identifier: MIT
#include "mover/staged_job.hpp"

#include <algorithm>
#include <utility>

#include "base/guarded.hpp"
#include "endpoint/endpoint_state.hpp"
#include "endpoint/send_queue_datapath.hpp"

namespace hbmwire::detail {

namespace {

using wire::MessageHeader;

// Pieces of one transfer: half of them at the engine and half at the NIC, so that neither waits for
// the other.
constexpr std::size_t kMostPieces = 8;
// With more pieces under way none is begun. An engine that has run out of work takes time to start,
// some of it on the CPU; beginning several pieces together pays for that once.
constexpr std::size_t kFewPieces = kMostPieces / 2;

/// Starts the copy of a piece. `pieces`: the pool that `piece` belongs to.
template <class Pieces>
Result<PendingCopy> copy_of(Pieces& pieces, MemoryDomain& domain, bool out, std::uint64_t address,
                            std::span<std::byte> piece) {
  pieces.pin_for(domain);
  return out ? domain.start_copy_out(address, piece) : domain.start_copy_in(address, piece);
}

}  // namespace

StagedJob::StagedJob(Kind kind_of, EndpointState& endpoint_of, TransferState* transfer_of,
                     const transport::Operation& whole_of, transport::PiecePool& pool)
    : kind(kind_of), endpoint(endpoint_of), transfer(transfer_of), whole(whole_of), pool_(pool) {
  pieces_.reserve(kMostPieces);
}

/// Whether more may be begun.
bool StagedJob::goes_on() const noexcept {
  return endpoint.phase == EndpointPhase::ready && !error;
}

bool StagedJob::advance() noexcept {
  take_completions();
  ask_engine();
  // The engine gets its work first: a post may move bytes within the call, and the engine can work
  // meanwhile.
  if (goes_on()) start_pieces();
  if (goes_on()) post_ready();
  if (!goes_on()) drop_pieces();
  if (!pieces_.empty()) return false;
  if (!goes_on()) return true;
  // The immediate comes after the bytes: they have arrived only when the peer's process has said
  // so.
  const bool tells = kind == Kind::asks && whole.with_immediate;
  return all_begun() && (!tells || endpoint.post_immediate(*transfer));
}

/// Whether the NIC has moved the piece.
bool StagedJob::is_over(const Piece& piece) const noexcept {
  return piece.state == Piece::State::away && piece.id == 0 &&
         endpoint.sends.is_over_before(piece.slot + 1);
}

/// Goes on with pieces that the NIC has moved.
void StagedJob::take_completions() noexcept {
  // A failed READ has brought no bytes; it has ended the endpoint.
  const bool brings = !out() && goes_on();
  for (Piece& piece : pieces_) {
    if (!is_over(piece)) continue;
    piece.state = Piece::State::moved;
    ++endpoint.worker->event_count;
    if (brings && !error) start_copy(piece);
  }
}

bool StagedJob::on_proxied(const MessageHeader& answer) noexcept {
  const auto piece = std::ranges::find(pieces_, answer.id, &Piece::id);
  const bool taken = answer.outcome == MessageHeader::Outcome::taken;
  if (piece == pieces_.end() || (taken && answer.length != piece->length_bytes)) return false;
  piece->id = 0;
  piece->state = Piece::State::moved;
  if (!taken) {
    denied = denied || answer.outcome == MessageHeader::Outcome::denied;
    fail_with(endpoint.movers.proxied.refusal_of(answer.outcome));
  } else if (!out() && goes_on()) {
    start_copy(*piece);
  }
  return true;
}

/// The first error counts.
void StagedJob::fail_with(const Error& why) noexcept {
  if (!error) error = why;
}

/// Starts the engine's copy. If that fails, the piece counts as moved, and `error` says why.
void StagedJob::start_copy(Piece& piece) noexcept {
  piece.state = Piece::State::copying;
  if (kind == Kind::serves) return start_exported_copy(piece);
  auto copy = copy_of(pool_, memory->domain(), out(), whole.local + piece.offset_bytes,
                      {piece.memory, piece.length_bytes});
  if (copy) {
    piece.copy = std::move(*copy);
  } else {
    fail_with(copy.error());
  }
}

void StagedJob::start_exported_copy(Piece& piece) noexcept {
  const std::uint64_t address = whole.local + piece.offset_bytes;
  auto hold = ExportHold::take(token, out() ? Access::remote_read : Access::remote_write, address,
                               piece.length_bytes);
  if (!hold) {
    denied = hold.error().code != Errc::exhausted;  // a shortage is no fault of the key
    return fail_with(hold.error());
  }
  MemoryDomain& domain = hold->memory().allocation.domain();
  const std::span bytes{piece.memory, piece.length_bytes};
  auto copy = mapped != nullptr ? copy_of(endpoint.movers.pieces, domain, out(), address, bytes)
                                : copy_of(pool_, domain, out(), address, bytes);
  if (!copy) return fail_with(copy.error());
  hold->watch(std::move(*copy));
  // If it cannot be kept, its destructor waits for the engine.
  const auto kept = guarded(Stage::complete, [&]() -> Result<void> {
    piece.hold = std::make_unique<ExportHold>(std::move(*hold));
    return {};
  });
  if (!kept) fail_with(kept.error());
}

/// Goes on with pieces that the engine has copied, and gives back those that are done.
void StagedJob::ask_engine() noexcept {
  for (Piece& piece : pieces_) {
    if (piece.state != Piece::State::copying) continue;
    const auto done = piece.hold ? piece.hold->poll() : piece.copy.poll();
    if (done && !*done) continue;
    if (!done) fail_with(done.error());
    piece.hold.reset();
    const bool is_to_hand_on = done && out() && mapped == nullptr;
    piece.state = is_to_hand_on ? Piece::State::ready : Piece::State::moved;
    ++endpoint.worker->event_count;
  }
  while (!pieces_.empty() && pieces_.front().state == Piece::State::moved) {
    give_back(pieces_.front());
    pieces_.erase(pieces_.begin());
  }
}

void StagedJob::give_back(const Piece& piece) noexcept {
  if (mapped == nullptr) pool_.give_back(piece.memory);
}

/// In their order, since the last piece may carry an immediate.
void StagedJob::post_ready() noexcept {
  for (Piece& piece : pieces_) {
    if (piece.state == Piece::State::away || piece.state == Piece::State::moved) continue;
    if (piece.state != Piece::State::ready || !hand_on(piece)) return;
  }
}

/// The operation that moves the piece between this end's host memory and the peer.
transport::Operation StagedJob::part_of(const Piece& piece) const noexcept {
  const bool last = piece.offset_bytes + piece.length_bytes == whole.length;
  transport::Operation part = whole;
  part.local = reinterpret_cast<std::uint64_t>(piece.memory);
  part.local_key = pool_.local_key();
  part.remote = whole.remote + piece.offset_bytes;
  part.length = piece.length_bytes;
  part.with_immediate = last && whole.with_immediate;
  part.flushed = last && whole.flushed;
  return part;
}

/// Hands the piece to the NIC, or to the peer's process. False: there is no room, or the endpoint
/// has failed.
bool StagedJob::hand_on(Piece& piece) noexcept {
  const transport::Operation part = part_of(piece);
  if (kind == Kind::asks) {
    if (!endpoint.movers.proxied.may_ask()) return false;
    piece.id = endpoint.movers.proxied.ask(*transfer, part, token, pool_.remote_key());
    if (piece.id != 0) piece.state = Piece::State::away;
    return piece.id != 0;
  }
  if (!endpoint.sends.has_room(SendQueue::kRequestsOfPost) ||
      (part.with_immediate && !endpoint.messages.has_credit()))
    return false;
  // A post may move the bytes within the call. One post for each call of progress() gives the
  // engine new pieces in between.
  const unsigned now = endpoint.worker->calls;
  if (std::exchange(posted_in_, now) == now) return false;
  piece.slot = endpoint.sends.head();
  piece.state = Piece::State::away;
  if (const int result = endpoint.sends.post(part, transfer); result != 0) {
    if (endpoint.sends.head() == piece.slot)
      piece.state = Piece::State::moved;  // nothing of it is posted
    endpoint.fail_post(result, transfer);
    return false;
  }
  if (part.with_immediate) endpoint.messages.spend_credit();
  return true;
}

/// Begins further pieces, as far as there is room and memory for them.
void StagedJob::start_pieces() noexcept {
  if (out() && pieces_.size() > kFewPieces) return;
  while (!all_begun() && pieces_.size() < kMostPieces) {
    if (!out() && mapped == nullptr && !endpoint.sends.has_room(SendQueue::kRequestsOfPost)) return;
    Piece piece = next_piece();
    if (piece.memory == nullptr) return;
    pieces_.push_back(std::move(piece));
    if (!start_piece(pieces_.back())) {
      give_back(pieces_.back());
      pieces_.pop_back();
      return;
    }
    begun_bytes_ += pieces_.back().length_bytes;
  }
}

/// A new piece; without memory if all pieces are in use.
StagedJob::Piece StagedJob::next_piece() noexcept {
  if (mapped != nullptr) return {.memory = mapped, .length_bytes = whole.length};
  const std::uint64_t most =
      std::min<std::uint64_t>(transport::PiecePool::kPieceBytes, endpoint.sends.most_bytes());
  return {.memory = pool_.take(),
          .offset_bytes = begun_bytes_,
          .length_bytes = std::min(most, whole.length - begun_bytes_)};
}

/// False: neither engine nor NIC has the piece.
bool StagedJob::start_piece(Piece& piece) noexcept {
  if (!out() && mapped == nullptr) return hand_on(piece);
  start_copy(piece);
  return !error;
}

/// The job does not go on. Pieces that wait for the NIC are dropped. Pieces that the engine or the
/// NIC has stay until they are given back. A piece that the peer's process has stays until the peer
/// answers, or until this end's queue pair no longer lets the peer's NIC in.
void StagedJob::drop_pieces() noexcept {
  const bool closed = endpoint.ending.is_data_closed();
  for (Piece& piece : pieces_) {
    if (piece.state == Piece::State::ready || (piece.id != 0 && closed))
      piece.state = Piece::State::moved;
  }
  std::erase_if(pieces_, [&](const Piece& piece) {
    if (piece.state == Piece::State::moved) give_back(piece);
    return piece.state == Piece::State::moved;
  });
}

void StagedJob::stop() noexcept {
  for (Piece& piece : pieces_) {
    give_back(piece);
    piece = Piece{};  // waits for the engine
  }
  pieces_.clear();
}

}  // namespace hbmwire::detail
