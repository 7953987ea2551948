// SPDX-License-Identifier: MIT
#include "bench/registration/raw_nic.hpp"

#include <stdexcept>

#include "bench/common/peer.hpp"

namespace hbmwire::bench {
namespace {

constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

}  // namespace

RawNic::RawNic() {
  ibv_device** const devices = ::ibv_get_device_list(nullptr);
  if (devices == nullptr || devices[0] == nullptr) throw std::runtime_error("there is no NIC");
  context_.reset(::ibv_open_device(devices[0]));
  ::ibv_free_device_list(devices);
  if (!context_) fail("ibv_open_device");
  pd_.reset(::ibv_alloc_pd(context_.get()));
  if (!pd_) fail("ibv_alloc_pd");
}

ibv_mr* RawNic::register_host(void* address, std::size_t bytes) {
  ibv_mr* const mr = ::ibv_reg_mr(pd_.get(), address, bytes, kAccess);
  if (mr == nullptr) fail("ibv_reg_mr");
  return mr;
}

ibv_mr* RawNic::register_dmabuf(int fd, std::uint64_t offset, std::size_t bytes,
                                std::uint64_t iova) {
  ibv_mr* const mr = ::ibv_reg_dmabuf_mr(pd_.get(), offset, bytes, iova, fd, kAccess);
  if (mr == nullptr) fail("ibv_reg_dmabuf_mr");
  return mr;
}

void RawNic::deregister(ibv_mr* mr) {
  if (::ibv_dereg_mr(mr) != 0) fail("ibv_dereg_mr");
}

}  // namespace hbmwire::bench
