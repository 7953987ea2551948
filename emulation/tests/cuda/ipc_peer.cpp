// SPDX-License-Identifier: MIT
//
// The other processes of ipc_test.cpp and ipc_processes_test.cpp.
#include <cstring>

#include "emulation/cuda/abi/cuda.h"
#include "emulation/cuda/testing_hooks.hpp"
#include "emulation/tests/ipc_peer/peer.hpp"
#include "emulation/tests/ipc_peer/program.hpp"

namespace hbmwire::test {
namespace {

class CudaPeer final : public PeerProgram {
 protected:
  int start() override {
    CUcontext context = nullptr;
    if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS)
      return 1;
    return cuCtxPushCurrent_v2(context);
  }

  int allocate(std::uint64_t bytes) override { return cuMemAlloc_v2(&own_, bytes); }

  int offer(std::string& handle) override {
    CUipcMemHandle made{};
    const CUresult result = cuIpcGetMemHandle(&made, own_);
    handle = to_hex(std::as_bytes(std::span(made.reserved)));
    return result;
  }

  int free() override { return cuMemFree_v2(own_); }

  int open(const std::string& handle, std::uint64_t /*bytes*/) override {
    CUipcMemHandle read{};
    from_hex(handle, std::as_writable_bytes(std::span(read.reserved)));
    return cuIpcOpenMemHandle_v2(&opened_, read, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
  }

  int close() override {
    const CUdeviceptr address = opened_;
    opened_ = 0;
    return cuIpcCloseMemHandle(address);
  }

  int read(std::uint64_t at, std::string& text) override {
    return cuMemcpyDtoH_v2(text.data(), where() + at, text.size());
  }

  int write(std::uint64_t at, const std::string& text) override {
    const CUresult result = cuMemcpyHtoD_v2(where() + at, text.data(), text.size());
    return result == CUDA_SUCCESS ? cuCtxSynchronize() : result;
  }

  unsigned long live(const std::string& kind) override {
    return hbmwire_cuda_live_objects(0, kind.c_str());
  }

 private:
  /// The memory that read() and write() use.
  [[nodiscard]] CUdeviceptr where() const { return opened_ != 0 ? opened_ : own_; }

  CUdeviceptr own_ = 0;
  CUdeviceptr opened_ = 0;
};

}  // namespace
}  // namespace hbmwire::test

int main() { return hbmwire::test::CudaPeer().run(); }
