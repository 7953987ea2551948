// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "cuda_test_world.hpp"
#include "emulation/tests/ipc_peer/peer.hpp"

namespace hbmwire::test {

/// The text of a handle: 64 bytes in hexadecimal. A peer's answer of another size is an error.
inline constexpr std::size_t kHandleDigits = 128;

/// A value for results that a failed call must leave unchanged.
inline constexpr CUdeviceptr kUntouched = 7;

/// cuIpcOpenMemHandle of a handle in hexadecimal.
CUresult open(CUdeviceptr& address, const std::string& handle,
              unsigned flags = CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);

/// Opens a handle that must be valid, and returns the address.
CUdeviceptr open_valid(const std::string& handle);

/// cuIpcGetMemHandle; the handle in hexadecimal.
std::string handle_of(CUdeviceptr address);

/// The free bytes of GPU 0.
std::uint64_t free_bytes();

/// Tests of handles from other processes.
class CudaIpc : public CudaTest {
 protected:
  /// Obeys the instructions of PeerProgram. An answer "0" means success.
  Peer other_{{HBMWIRE_CUDA_IPC_PEER}};

  /// The answer of a peer whose call had this result.
  static std::string code(CUresult result) { return std::to_string(result); }
};

}  // namespace hbmwire::test
