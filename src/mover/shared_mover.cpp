// SPDX-License-Identifier: MIT
#include "mover/shared_mover.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/guarded.hpp"
#include "base/log.hpp"
#include "base/probes.hpp"
#include "endpoint/transfer_counts_datapath.hpp"
#include "registration/shared_keys.hpp"

namespace hbmwire::detail {

using transport::Neighbour;
using transport::Operation;

namespace {

Neighbour::Copy copy_of(const Operation& what, bool kept) noexcept {
  return {.local = std::bit_cast<std::byte*>(what.local),
          .remote = what.remote,
          .length_bytes = what.length,
          .gets = what.opcode == transport::Opcode::read,
          .guarded = !kept};
}

}  // namespace

void SharedMover::connect(const wire::EndpointOffer& theirs) {
  neighbour_.reset();
  refusal_.reset();
  if (!endpoint_.paths.shares_memory() || !theirs.shares) return;
  const SharedFileName name{.process = theirs.shares->process,
                            .descriptor = theirs.shares->descriptor,
                            .mark = shared_keys_mark(theirs.data.incarnation)};
  const auto open = [&]() -> Result<void> {
    HBMWIRE_TRY_ASSIGN(auto host, endpoint_.worker->context.open(MemoryType::host));
    HBMWIRE_TRY_ASSIGN(neighbour_, Neighbour::open(name, endpoint_.peer, std::move(host)));
    return endpoint_.movers.ring.offer(*neighbour_, theirs);
  };
  if (const auto opened = guarded(Stage::open, open); !opened) {
    refusal_ = opened.error();
    neighbour_.reset();
    log_line(LogLevel::info, [&] {
      return "the memory of " + endpoint_.peer +
             " is not reached by shared memory: " + describe(opened.error());
    });
    return;
  }
  refusal_ = neighbour_->no_private();
  endpoint_.paths.reach_neighbour();
}

std::uint32_t SharedMover::find(MemoryType type, std::uint64_t token) {
  if (!neighbour_ || type != MemoryType::host) return 0;
  const auto found = neighbour_->find(token);
  if (found) return *found;
  refusal_ = found.error();
  if (EndpointLabel* const label = endpoint_.worker->labels.find(endpoint_.number))
    label->not_shared = found.error();
  if (told_.is_new(found.error())) {
    log_line(LogLevel::info, [&] {
      return "memory of " + endpoint_.peer +
             " is not reached by shared memory: " + describe(found.error());
    });
  }
  return 0;
}

bool SharedMover::reaches(const RegionState& local,
                          const RemoteRegionState& distant) const noexcept {
  return distant.shared != 0 && local.path == Path::host;
}

bool SharedMover::takes(const EndpointState& /*endpoint*/, const Move& move) const {
  // An immediate tells its receiver how many bytes came with it. A message by the ring can carry
  // that number. Without a ring only the NIC's own WRITE can: an empty WRITE behind a copy would
  // tell of 0 bytes.
  if (move.tells && !endpoint_.movers.ring.is_on()) return false;
  return reaches(move.local(), move.distant());
}

Result<void> SharedMover::start(TransferState& transfer, Operation& operation, const Move& move) {
  // Only bytes that a NIC writes need a READ behind them to be visible.
  operation.flushed = false;
  operation.remote_key = move.distant().shared;
  transfer.path = Path::shared_memory;
  transfer.region = &move.local();
  transfer.then = Then::over;
  transfer.move_by(*this, Copied{move.distant().token, endpoint_.movers.engine_writes.written()});
  return {};
}

bool SharedMover::pull(TransferState& transfer, std::uint32_t key, std::uint64_t address) noexcept {
  if (!neighbour_) return false;
  std::uint64_t token = 0;
  const auto found = guarded(Stage::post, [&] { return neighbour_->find_at(key, token); });
  if (!found) return false;
  Operation& operation = transfer.operation;
  operation.opcode = transport::Opcode::read;
  operation.remote = address;
  operation.remote_key = *found;
  operation.with_immediate = false;
  transfer.path = Path::shared_memory;
  transfer.then = Then::over;
  // 0: the bytes are in host memory, so no writes of NICs must be flushed before.
  transfer.move_by(endpoint_.movers.shared_reads, Copied{token, 0});
  return true;
}

bool SharedMover::is_at_once(const RegionState& local, const RemoteRegionState& distant,
                             std::uint64_t length_bytes) const noexcept {
  // About a microsecond of memcpy(3); longer transfers are copied by progress().
  constexpr std::uint64_t kMostBytes = 16384;
  return reaches(local, distant) && length_bytes <= kMostBytes && endpoint_.pending.empty() &&
         endpoint_.sends.outstanding() == 0 && endpoint_.movers.moving == 0;
}

Result<Transfer> SharedMover::copy_at_once(const Operation& operation, const Move& move) noexcept {
  WorkerState& worker = *endpoint_.worker;
  TransferState* const transfer = worker.transfers.take();
  if (transfer == nullptr) [[unlikely]]
    return tl::make_unexpected(worker.transfers.none_left(endpoint_.peer));
  const RemoteRegionState& distant = move.distant();
  transfer->protocol = Protocol::direct;
  endpoint_.set_route(*transfer, &move.local(), &distant);
  transfer->path = Path::shared_memory;
  transfer->begin(&endpoint_, move.kind(), operation.length);
  HBMWIRE_PROBE4(ask, transfer, transfer->connection, transfer->kind, transfer->bytes);
  if (worker.attends) [[unlikely]]
    worker.note_asked(*transfer);
  Transfer handle = endpoint_.hand_out(*transfer);
  const auto copied =
      neighbour_->copy(distant.shared, distant.token, copy_of(operation, move.local().kept));
  ++worker.event_count;
  if (copied) [[likely]] {
    worker.succeed(*transfer);
  } else if (copied.error().code == Errc::peer_failed) {
    endpoint_.ending.mark_failed(*transfer);
    endpoint_.fail(copied.error(), transfer);
  } else {
    worker.fail(*transfer, copied.error(), /*settled=*/true);
  }
  // Looks after the peer now and then, so that an application that only copies notices the peer's
  // end, too.
  constexpr unsigned kBetweenLooks = 4096;
  if (++at_once_ % kBetweenLooks == 0) [[unlikely]]
    worker.tick();
  return handle;
}

void SharedMover::begin(Job& /*job*/) noexcept { copied_bytes_ = 0; }

/// Copies the next piece, if there is one.
bool SharedMover::has_ended(Job& job) noexcept {
  const Operation& what = job.transfer.operation;
  if (!goes_on() || copied_bytes_ == what.length) return true;
  Operation piece = what;
  piece.local += copied_bytes_;
  piece.remote += copied_bytes_;
  piece.length = std::min(what.length - copied_bytes_, Neighbour::kMostBytes);
  const auto copied = endpoint_.movers.shared.neighbour().copy(
      what.remote_key, job.transfer.as<Copied>()->token, copy_of(piece, job.transfer.region->kept));
  if (!copied && copied.error().code == Errc::peer_failed) {
    endpoint_.fail(copied.error(), &job.transfer);
  } else if (!copied) {
    job.error = copied.error();
  }
  copied_bytes_ += piece.length;
  return !copied || copied_bytes_ == what.length;
}

void SharedMover::look() noexcept {
  if (!neighbour_) return;
  neighbour_->look();
  SharedKeys* const ours = shared_exports();
  if (ours == nullptr) return;
  static_cast<void>(guarded(Stage::complete, [&]() -> Result<void> {
    ours->look();
    return {};
  }));
}

}  // namespace hbmwire::detail
