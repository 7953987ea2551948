// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "cuda_test_world.hpp"
#include "emulation/tests/ipc_peer/peer.hpp"

namespace hbmwire::test {

CUresult open(CUdeviceptr& address, const std::string& handle,
              unsigned flags = CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);

/// cuIpcOpenMemHandle of a handle that must be valid.
CUdeviceptr opened(const std::string& handle);

/// cuIpcGetMemHandle; the handle in hexadecimal.
std::string handle_of(CUdeviceptr address);

std::uint64_t free_bytes();

/// Tests of handles from other processes.
class CudaIpc : public CudaTest {
 protected:
  Peer other_{{HBMWIRE_CUDA_IPC_PEER}};

  static std::string code(CUresult result) { return std::to_string(result); }
};

}  // namespace hbmwire::test
