// SPDX-License-Identifier: MIT
#include "mover/copy_mover.hpp"

#include <utility>

#include "base/guarded.hpp"
#include "endpoint/endpoint_state.hpp"
#include "transport/copy/engine_copy.hpp"

namespace hbmwire::detail {

std::optional<RemoteRegionState> CopyMover::region_of(const MemoryKeyInfo& key) const {
  if (!endpoint_.paths.copies() || key.incarnation != endpoint_.remote_regions.peer()->incarnation)
    return std::nullopt;
  const bool nic_reaches = !key.nics.empty();
  if (key.type == MemoryType::host && nic_reaches) return std::nullopt;
  const auto domain = Export::domain_of(key.token);
  if (!domain || (key.type != MemoryType::host && !transport::has_engine(*domain)))
    return std::nullopt;
  // This path is for transfers that takes() leaves to others, such as those whose local memory no
  // engine reaches. If no NIC reaches the peer's memory either, the peer's process moves the bytes,
  // as for Path::staged. start() sets Path::copy for transfers by an engine.
  return RemoteRegionState{.address = key.address,
                           .length_bytes = key.length_bytes,
                           .connection = endpoint_.number | kByEngine,
                           .access = key.access,
                           .type = key.type,
                           .path = nic_reaches ? key.path : Path::staged,
                           .token = key.token};
}

bool CopyMover::takes(const EndpointState& endpoint, const Move& move) const {
  const RegionState& local = move.local();
  const RemoteRegionState& distant = move.distant();
  if ((distant.connection & ~kByEngine) != endpoint.number) return false;
  // Between host memories the NIC is as fast as a copy, and need not be polled as an engine must.
  if (local.path == Path::host && distant.type == MemoryType::host) return false;
  const auto domain = Export::domain_of(distant.token);
  if (!domain) return false;
  MemoryDomain& mine = local.allocation.domain();
  if (!transport::engine_copies(mine, *domain) || !transport::engine_copies(*domain, mine))
    return false;
  return endpoint.movers.engine_writes.can_be_flushed(distant);
}

Result<void> CopyMover::start(TransferState& transfer, transport::Operation& operation,
                              const Move& move) {
  // Only bytes that a NIC writes need a READ behind them to be visible.
  operation.flushed = false;
  transfer.path = Path::copy;
  transfer.region = &move.local();
  transfer.then = Then::over;
  // The engine must see the NIC's writes so far: wrote_before() compares this count with those
  // that are flushed already.
  transfer.move_by(*this, Copied{move.distant().token, endpoint_.movers.engine_writes.written()});
  return {};
}

/// Checks the key here, so that a key that has ended fails only this transfer. If the NIC found
/// out, the endpoint would fail.
Result<void> CopyMover::check_flush(const Job& job) const {
  // 1: the flush reads one byte.
  HBMWIRE_TRY_ASSIGN(const ExportHold hold,
                     ExportHold::take(job.transfer.as<Copied>()->token, Access::remote_read,
                                      job.transfer.operation.remote, 1));
  return {};
}

void CopyMover::begin(Job& job) noexcept {
  const transport::Operation& what = job.transfer.operation;
  const bool gets = what.opcode == transport::Opcode::read;
  const auto start = [&]() -> Result<void> {
    HBMWIRE_TRY_ASSIGN(ExportHold hold,
                       ExportHold::take(job.transfer.as<Copied>()->token,
                                        gets ? Access::remote_read : Access::remote_write,
                                        what.remote, what.length));
    const Allocation theirs = hold.memory().allocation;
    const transport::CopyPlace here{job.memory.domain(), what.local};
    const transport::CopyPlace there{theirs.domain(), what.remote};
    HBMWIRE_TRY_ASSIGN(
        PendingCopy copy,
        transport::start_engine_copy(gets ? there : here, gets ? here : there, what.length));
    hold.watch(std::move(copy));
    hold_.emplace(std::move(hold));
    return {};
  };
  if (const auto started = guarded(Stage::copy, start); !started) job.error = started.error();
}

bool CopyMover::has_ended(Job& job) noexcept {
  if (!hold_) return true;
  const auto done = hold_->poll();
  if (done && !*done) return false;
  if (!done) job.error = done.error();
  hold_.reset();
  return true;
}

}  // namespace hbmwire::detail
