// SPDX-License-Identifier: MIT
#include "ipc_world.hpp"

namespace hbmwire::test {

CUresult open(CUdeviceptr& address, const std::string& handle, unsigned flags) {
  CUipcMemHandle read{};
  from_hex(handle, std::as_writable_bytes(std::span(read.reserved)));
  return cuIpcOpenMemHandle_v2(&address, read, flags);
}

CUdeviceptr open_valid(const std::string& handle) {
  CUdeviceptr address = 0;
  EXPECT_EQ(open(address, handle), CUDA_SUCCESS);
  return address;
}

std::string handle_of(CUdeviceptr address) {
  CUipcMemHandle handle{};
  EXPECT_EQ(cuIpcGetMemHandle(&handle, address), CUDA_SUCCESS);
  return to_hex(std::as_bytes(std::span(handle.reserved)));
}

std::uint64_t free_bytes() {
  std::size_t free = 0;
  std::size_t total = 0;
  EXPECT_EQ(cuMemGetInfo_v2(&free, &total), CUDA_SUCCESS);
  return free;
}

}  // namespace hbmwire::test
