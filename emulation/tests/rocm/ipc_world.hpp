// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "emulation/tests/ipc_peer/peer.hpp"
#include "rocm_world.hpp"

namespace hbmwire::test {

/// The text of a handle: 32 bytes in hexadecimal. A peer's answer of another size is an error.
inline constexpr std::size_t kHandleDigits = 64;

/// Tests of handles from other processes.
class RocmIpc : public RocmTest {
 protected:
  /// Obeys the instructions of PeerProgram. An answer "0" means success.
  Peer other_{{HBMWIRE_ROCM_IPC_PEER}};

  /// hsa_amd_ipc_memory_attach of a handle in hexadecimal. A failure leaves `address` unchanged.
  static hsa_status_t attach(char*& address, const std::string& handle, std::size_t bytes,
                             const std::vector<hsa_agent_t>& agents = {});
  /// Attaches memory by a handle that must be valid, and returns the address.
  static char* attach_valid(const std::string& handle, std::size_t bytes);
  /// hsa_amd_ipc_memory_create; the handle in hexadecimal, zeros after a failure.
  static hsa_status_t create(void* pointer, std::size_t bytes, std::string& handle);
  /// The handle of memory that must get one.
  static std::string handle_of(const PoolMemory& memory, std::size_t bytes);

  /// Copies from and to memory of the first GPU.
  [[nodiscard]] std::string get(const void* from, std::size_t bytes) const;
  void put(void* to, const std::string& text) const;
  /// The free bytes of the first GPU.
  [[nodiscard]] std::uint64_t free_bytes() const;
};

}  // namespace hbmwire::test
