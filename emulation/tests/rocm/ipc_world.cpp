// SPDX-License-Identifier: MIT
#include "ipc_world.hpp"

namespace hbmwire::test {

hsa_status_t RocmIpc::attach(char*& address, const std::string& handle, std::size_t bytes,
                             const std::vector<hsa_agent_t>& agents) {
  hsa_amd_ipc_memory_t read{};
  from_hex(handle, std::as_writable_bytes(std::span(read.handle)));
  void* mapped = address;
  const hsa_status_t status = hsa_amd_ipc_memory_attach(
      &read, bytes, static_cast<std::uint32_t>(agents.size()), agents.data(), &mapped);
  address = static_cast<char*>(mapped);
  return status;
}

char* RocmIpc::attach_valid(const std::string& handle, std::size_t bytes) {
  char* address = nullptr;
  EXPECT_EQ(attach(address, handle, bytes), HSA_STATUS_SUCCESS);
  return address;
}

hsa_status_t RocmIpc::create(void* pointer, std::size_t bytes, std::string& handle) {
  hsa_amd_ipc_memory_t made{};
  const hsa_status_t status = hsa_amd_ipc_memory_create(pointer, bytes, &made);
  handle = to_hex(std::as_bytes(std::span(made.handle)));
  return status;
}

std::string RocmIpc::handle_of(const PoolMemory& memory, std::size_t bytes) {
  std::string handle;
  EXPECT_EQ(create(memory.get(), bytes, handle), HSA_STATUS_SUCCESS);
  return handle;
}

std::string RocmIpc::get(const void* from, std::size_t bytes) const {
  std::string text(bytes, '?');
  read_gpu(gpus_[0], host_, text.data(), from, bytes);
  return text;
}

void RocmIpc::put(void* to, const std::string& text) const {
  write_gpu(gpus_[0], host_, to, text.data(), text.size());
}

std::uint64_t RocmIpc::free_bytes() const {
  std::uint64_t left = 0;
  EXPECT_EQ(hsa_agent_get_info(gpus_[0], HSA_AMD_AGENT_INFO_MEMORY_AVAIL, &left),
            HSA_STATUS_SUCCESS);
  return left;
}

}  // namespace hbmwire::test
