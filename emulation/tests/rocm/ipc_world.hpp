// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "emulation/tests/ipc_peer/peer.hpp"
#include "rocm_world.hpp"

namespace hbmwire::test {

/// Tests of handles from other processes.
class RocmIpc : public RocmTest {
 protected:
  Peer other_{{HBMWIRE_ROCM_IPC_PEER}};

  static hsa_status_t attach(char*& address, const std::string& handle, std::size_t bytes,
                             const std::vector<hsa_agent_t>& agents = {});
  /// Attaches memory by a handle that must be valid.
  static char* attached(const std::string& handle, std::size_t bytes);
  static hsa_status_t create(void* pointer, std::size_t bytes, std::string& handle);
  /// As create(), for memory that must get a handle.
  static std::string handle_of(const PoolMemory& memory, std::size_t bytes);

  [[nodiscard]] std::string get(const void* from, std::size_t bytes) const;
  void put(void* to, const std::string& text) const;
  /// The free bytes of the first GPU.
  [[nodiscard]] std::uint64_t free_bytes() const;
};

}  // namespace hbmwire::test
