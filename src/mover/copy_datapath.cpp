// SPDX-License-Identifier: MIT
#include "endpoint/endpoint_state.hpp"
#include "registration/exports.hpp"
#include "transport/copy/engine_copy.hpp"

namespace hbmwire::detail {

using transport::Operation;

// Between host and host the NIC is as good as the CPU, and nobody waits for it.
bool EndpointState::is_copied(const Slice& here, const RemoteSlice& there) const {
  if (here.region == nullptr || there.region == nullptr || here.length_bytes == 0) return false;
  const RegionState& local = here.region->state();
  const RemoteRegionState& remote_region = RemoteRegionState::of(*there.region);
  if ((remote_region.connection & ~kByEngine) != number) return false;
  if (local.path == Path::host && remote_region.type == MemoryType::host) return false;
  const auto domain = Export::domain_of(remote_region.token);
  if (!domain) return false;
  MemoryDomain& mine = local.allocation.domain();
  if (!transport::engine_copies(mine, *domain) || !transport::engine_copies(*domain, mine))
    return false;
  return can_be_flushed(remote_region);
}

bool EndpointState::can_be_flushed(const RemoteRegionState& region) const noexcept {
  const bool written = device_writes != flushed_writes;
  return !is_by_nic(region.path) || !written || has(region.access, Access::remote_read) ||
         region.type == MemoryType::host;
}

void EndpointState::copy(TransferState& transfer, Operation& operation, const Slice& here,
                         const RemoteSlice& there, Path by) const {
  // Fields that only atomics have.
  operation.compare_or_add = remote_state_of(there)->token;
  operation.swap = device_writes;
  operation.flushed = false;
  transfer.kind = TransferState::Kind::copied;
  transfer.path = by;
  transfer.region = &here.region->state();
  transfer.message = nullptr;
}

bool EndpointState::go_on_copied(TransferState& transfer) noexcept {
  if (!worker->copier->go_on(transfer) || phase != EndpointPhase::ready) return false;
  const auto not_by_ipc = worker->copier->turn_back(transfer);
  if (!not_by_ipc) return true;
  fall_back(transfer, *not_by_ipc);
  return post_rest(transfer);
}

void EndpointState::note_write(const RemoteRegionState& region) noexcept {
  if (is_by_engine(region)) ++device_writes;
}

bool EndpointState::fence_holds_back(std::uint32_t own) noexcept {
  // Until devices see what gets before the fence have brought. What else is moving ends by itself.
  fence_open = fence_open && moving != own;
  return fence_open;
}

bool EndpointState::wrote_before_copy(const TransferState& transfer) const noexcept {
  if (type_of(transfer.remote) == MemoryType::host || !is_by_nic(path_of(transfer.remote)))
    return false;
  return transfer.operation.swap > flushed_writes;
}

int EndpointState::post_flush(TransferState& transfer) noexcept {
  const Region& results = worker_nic.results;
  Operation operation;
  operation.opcode = transport::Opcode::read;
  operation.local = results.address() + results.size_bytes() - kSpareBytes;
  operation.local_key = *results.state().local_key(*nic);
  operation.length = 1;
  operation.remote = transfer.operation.remote;
  operation.remote_key = transfer.operation.remote_key;
  const int result = post(operation, &transfer);
  if (result == 0) flushed_writes = transfer.operation.swap;
  return result;
}

std::optional<RemoteRegionState> EndpointState::in_process(const MemoryKeyInfo& key) const {
  if (!paths.copies() || key.incarnation != remote->incarnation) return std::nullopt;
  const bool nic_reaches = !key.nics.empty();
  if (key.type == MemoryType::host && nic_reaches) return std::nullopt;
  const auto domain = Export::domain_of(key.token);
  if (!domain || (key.type != MemoryType::host && !transport::has_engine(*domain)))
    return std::nullopt;
  return RemoteRegionState{.address = key.address,
                           .length_bytes = key.length_bytes,
                           .connection = number | kByEngine,
                           .access = key.access,
                           .type = key.type,
                           .path = nic_reaches ? key.path : Path::staged,
                           .token = key.token};
}

}  // namespace hbmwire::detail
