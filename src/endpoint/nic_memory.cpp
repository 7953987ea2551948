// SPDX-License-Identifier: MIT
#include "endpoint/nic_memory.hpp"

#include <bit>
#include <utility>

#include "endpoint/tcp_port.hpp"
#include "endpoint/worker_nic.hpp"
#include "registration/region_state.hpp"
#include "registration/register.hpp"

namespace hbmwire::detail {

Result<NicMemory> NicMemory::make(const Context& context, const WorkerNic& nic,
                                  std::uint64_t size) {
  NicMemory made;
  HBMWIRE_TRY_ASSIGN(const Allocation memory, context.allocate(MemoryType::host, size));
  const NicState& device = state_of(nic.nic);
  if (TcpPort::stands_for(device)) {
    HBMWIRE_TRY_ASSIGN(auto kept,
                       registration::without_nic(memory, /*why=*/Error{}, Access::local_write));
    made.region = handle_of<Region>(std::move(kept));
  } else {
    HBMWIRE_TRY_ASSIGN(made.region, nic.nic.register_memory(memory, Access::local_write));
  }
  made.bytes = std::bit_cast<std::byte*>(made.region->address());
  made.local_key = state_of(*made.region).local_key(device).value_or(0);
  if (nic.mover == nullptr) return made;
  HBMWIRE_TRY_ASSIGN(made.for_mover, nic.mover->admit(made.bytes, size));
  made.mover_key = made.for_mover.get()->rkey;
  return made;
}

}  // namespace hbmwire::detail
