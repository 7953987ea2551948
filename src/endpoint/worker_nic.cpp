// SPDX-License-Identifier: MIT
#include "endpoint/worker_nic.hpp"

#include "registration/region_state.hpp"

namespace hbmwire::detail {

using transport::Operation;

Operation WorkerNic::read_back(std::uint64_t address, std::uint32_t remote_key) const noexcept {
  Operation read;
  read.local = results.address() + results.size_bytes() - kSpareBytes;
  read.remote = address;
  read.length = 1;
  read.local_key = state_of(results).local_key(state_of(nic)).value_or(0);
  read.remote_key = remote_key;
  read.opcode = transport::Opcode::read;
  return read;
}

Operation WorkerNic::read_last_of(const Operation& operation) const noexcept {
  return read_back(operation.remote + operation.length - 1, operation.remote_key);
}

}  // namespace hbmwire::detail
