// SPDX-License-Identifier: MIT
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace hbmwire::bench {

/// The first NIC, by libibverbs alone.
class RawNic {
 public:
  RawNic();

  /// Calls of ibv_reg_mr(3), ibv_reg_dmabuf_mr(3) and ibv_dereg_mr(3). They fail with an exception.
  ibv_mr* register_host(void* address, std::size_t bytes);
  ibv_mr* register_dmabuf(int fd, std::uint64_t offset, std::size_t bytes, std::uint64_t iova);
  static void deregister(ibv_mr* mr);

 private:
  struct Close {
    void operator()(ibv_context* context) const { ::ibv_close_device(context); }
  };

  struct Deallocate {
    void operator()(ibv_pd* pd) const { ::ibv_dealloc_pd(pd); }
  };

  std::unique_ptr<ibv_context, Close> context_;
  std::unique_ptr<ibv_pd, Deallocate> pd_;
};

}  // namespace hbmwire::bench
