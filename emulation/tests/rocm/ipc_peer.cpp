// SPDX-License-Identifier: MIT
//
// The other processes of ipc_test.cpp and ipc_processes_test.cpp.
#include <cstring>

#include "emulation/rocm/abi/hsa.h"
#include "emulation/rocm/testing_hooks.hpp"
#include "emulation/tests/ipc_peer/peer.hpp"
#include "emulation/tests/ipc_peer/program.hpp"

namespace hbmwire::test {
namespace {

hsa_status_t first_gpu(hsa_agent_t agent, void* data) {
  hsa_device_type_t type = HSA_DEVICE_TYPE_CPU;
  hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type);
  if (type != HSA_DEVICE_TYPE_GPU) return HSA_STATUS_SUCCESS;
  *static_cast<hsa_agent_t*>(data) = agent;
  return HSA_STATUS_INFO_BREAK;
}

hsa_status_t first_agent(hsa_agent_t agent, void* data) {
  *static_cast<hsa_agent_t*>(data) = agent;
  return HSA_STATUS_INFO_BREAK;
}

/// A GPU's last pool is its HBM.
hsa_status_t last_pool(hsa_amd_memory_pool_t pool, void* data) {
  *static_cast<hsa_amd_memory_pool_t*>(data) = pool;
  return HSA_STATUS_SUCCESS;
}

class RocmPeer final : public PeerProgram {
 protected:
  int start() override {
    const bool good = hsa_init() == HSA_STATUS_SUCCESS &&
                      hsa_iterate_agents(&first_agent, &host_) == HSA_STATUS_INFO_BREAK &&
                      hsa_iterate_agents(&first_gpu, &gpu_) == HSA_STATUS_INFO_BREAK;
    return good ? hsa_amd_agent_iterate_memory_pools(gpu_, &last_pool, &pool_) : 1;
  }

  int allocate(std::uint64_t bytes) override {
    bytes_ = bytes;
    void* made = nullptr;
    const hsa_status_t status = hsa_amd_memory_pool_allocate(pool_, bytes, 0, &made);
    own_ = static_cast<char*>(made);
    return status;
  }

  int offer(std::string& handle) override {
    hsa_amd_ipc_memory_t made{};
    const hsa_status_t status = hsa_amd_ipc_memory_create(own_, bytes_, &made);
    handle = to_hex(std::as_bytes(std::span(made.handle)));
    return status;
  }

  int free() override { return hsa_amd_memory_pool_free(own_); }

  int open(const std::string& handle, std::uint64_t bytes) override {
    hsa_amd_ipc_memory_t read{};
    from_hex(handle, std::as_writable_bytes(std::span(read.handle)));
    void* mapped = nullptr;
    const hsa_status_t status = hsa_amd_ipc_memory_attach(&read, bytes, 0, nullptr, &mapped);
    opened_ = static_cast<char*>(mapped);
    return status;
  }

  int close() override {
    char* const address = opened_;
    opened_ = nullptr;
    return hsa_amd_ipc_memory_detach(address);
  }

  int read(std::uint64_t at, std::string& text) override {
    return copy({where() + at, gpu_}, text, false);
  }

  int write(std::uint64_t at, const std::string& text) override {
    std::string copied = text;
    return copy({where() + at, gpu_}, copied, true);
  }

  unsigned long live(const std::string& kind) override {
    return hbmwire_rocm_live_objects(0, kind.c_str());
  }

  int end() override { return hsa_shut_down(); }

 private:
  struct End {
    void* address;
    hsa_agent_t agent;
  };

  /// The memory that read() and write() use.
  [[nodiscard]] char* where() const { return opened_ != nullptr ? opened_ : own_; }

  /// Copies between the GPU and `text`, which is locked meanwhile. Returns 0 for success.
  int copy(End gpu, std::string& text, bool to_gpu) const {
    End host{nullptr, host_};
    hsa_amd_memory_lock(text.data(), text.size(), nullptr, 0, &host.address);
    const End& to = to_gpu ? gpu : host;
    const End& from = to_gpu ? host : gpu;
    hsa_signal_t done{};
    hsa_signal_create(1, 0, nullptr, &done);
    hsa_amd_memory_async_copy(to.address, to.agent, from.address, from.agent, text.size(), 0,
                              nullptr, done);
    const auto left = hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_LT, 1, 10'000'000'000,
                                                HSA_WAIT_STATE_BLOCKED);
    hsa_signal_destroy(done);
    hsa_amd_memory_unlock(text.data());
    return left == 0 ? 0 : 1;
  }

  hsa_agent_t host_{};
  hsa_agent_t gpu_{};
  hsa_amd_memory_pool_t pool_{};
  std::uint64_t bytes_ = 0;
  char* own_ = nullptr;
  char* opened_ = nullptr;
};

}  // namespace
}  // namespace hbmwire::test

int main() { return hbmwire::test::RocmPeer().run(); }
