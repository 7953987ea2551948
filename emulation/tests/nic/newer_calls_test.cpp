// SPDX-License-Identifier: MIT
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

#include "emulation/tests/nic/extended_endpoint.hpp"

/// Calls that came with newer releases of libibverbs work or are refused with EOPNOTSUPP. The
/// headers may be older, so the calls are declared here and looked up in the loaded library.
namespace hbmwire::test {
namespace {

template <typename Function>
Function* newer(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, name));
}

/// ibv_mr_init_attr (rdma-core 59 and later).
struct RegionAttributes {
  std::size_t length;
  int access;
  std::uint64_t comp_mask;
  std::uint64_t iova;
  void* address;
  int fd;
  std::uint64_t fd_offset;
  void* dma_handle;
  void* buffer;
};

/// Calls functions that came with rdma-core 44 and 45, for which the QP was not created.
template <typename Extended>
void call_last_functions(Extended* qp, int& refused) {
  if constexpr (requires { qp->wr_atomic_write; }) {
    const std::uint64_t value = 1;
    ibv_wr_start(qp);
    ibv_wr_atomic_write(qp, 1, 0, &value);
    refused += ibv_wr_complete(qp) == EOPNOTSUPP;
  }
  if constexpr (requires { qp->wr_flush; }) {
    ibv_wr_start(qp);
    qp->wr_flush(qp, 1, 0, 8, 1, 0);
    refused += ibv_wr_complete(qp) == EOPNOTSUPP;
  }
}

template <typename Extended>
constexpr int count_last_functions() {
  return static_cast<int>(requires(Extended qp) { qp.wr_atomic_write; }) +
         static_cast<int>(requires(Extended qp) { qp.wr_flush; });
}

TEST(NewerCalls, AtomicWritesAndFlushesAreRefused) {
  if (count_last_functions<ibv_qp_ex>() == 0)
    GTEST_SKIP() << "no newer rdma-core here: ibv_wr_atomic_write is missing";
  Extended a(IBV_QPT_RC);
  int refused = 0;
  call_last_functions(a.ex, refused);
  EXPECT_EQ(refused, count_last_functions<ibv_qp_ex>());
}

TEST(NewerCalls, DmaHandlesAreRefused) {
  Endpoint a;
  auto* const alloc = newer<void*(ibv_context*, void*)>("ibv_alloc_dmah");
  if (alloc == nullptr) {
    GTEST_SKIP() << "no newer rdma-core here: ibv_alloc_dmah is missing";
  }
  std::uint64_t attributes[8]{};
  EXPECT_EQ(alloc(a.context.get(), attributes), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST(NewerCalls, TheSpeedOfAPortIsRefused) {
  Endpoint a;
  auto* const query =
      newer<int(ibv_context*, std::uint32_t, std::uint64_t*)>("ibv_query_port_speed");
  if (query == nullptr) {
    GTEST_SKIP() << "no newer rdma-core here: ibv_query_port_speed is missing";
  }
  std::uint64_t speed = 0;
  errno = 0;
  EXPECT_EQ(query(a.context.get(), 1, &speed), EOPNOTSUPP);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST(NewerCalls, CompletionCountersAreRefused) {
  Endpoint a;
  auto* const query = newer<int(ibv_context*, void*, std::size_t)>("_ibv_query_comp_cntr_caps");
  auto* const create = newer<void*(ibv_context*, void*)>("ibv_create_comp_cntr");
  if (query == nullptr || create == nullptr) {
    GTEST_SKIP() << "no newer rdma-core here: ibv_create_comp_cntr is missing";
  }
  std::uint64_t memory[8]{};
  EXPECT_EQ(query(a.context.get(), memory, 16), EOPNOTSUPP);
  EXPECT_EQ(create(a.context.get(), memory), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

/// Since rdma-core 64, libibverbs itself implements ibv_reg_mr_ex by ibv_reg_mr.
TEST(NewerCalls, RegistrationByAttributesWorksOrIsRefused) {
  Endpoint a;
  auto* const reg = newer<ibv_mr*(ibv_pd*, RegionAttributes*)>("ibv_reg_mr_ex");
  if (reg == nullptr) {
    GTEST_SKIP() << "no newer rdma-core here: ibv_reg_mr_ex is missing";
  }
  constexpr std::uint64_t kHasAddress = 2;
  RegionAttributes attributes{};
  attributes.length = 4096;
  attributes.access = kAllAccess;
  attributes.comp_mask = kHasAddress;
  attributes.address = a.buffer.data();
  ibv_mr* const mr = reg(a.pd.get(), &attributes);
  if (mr == nullptr) {
    EXPECT_EQ(errno, EOPNOTSUPP);
    return;
  }
  EXPECT_EQ(mr->addr, a.buffer.data());
  EXPECT_NE(mr->rkey, 0U);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

/// libibverbs allocates the buffers itself if the provider does not.
TEST(NewerCalls, BuffersOfTheProviderWork) {
  Endpoint a;
  auto* const alloc = newer<void*(ibv_pd*, std::size_t, void**)>("ibv_alloc_buf");
  auto* const reg = newer<ibv_mr*(ibv_pd*, void*, void*, std::size_t, int)>("ibv_reg_buf_mr");
  auto* const release = newer<void(void*)>("ibv_free_buf");
  if (alloc == nullptr || reg == nullptr || release == nullptr) {
    GTEST_SKIP() << "no newer rdma-core here: ibv_alloc_buf is missing";
  }
  void* buffer = nullptr;
  void* const address = alloc(a.pd.get(), 8192, &buffer);
  ASSERT_NE(address, nullptr) << std::strerror(errno);
  if (ibv_mr* const mr = reg(a.pd.get(), buffer, address, 8192, kAllAccess); mr != nullptr) {
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
  } else {
    EXPECT_EQ(errno, EOPNOTSUPP);
  }
  release(buffer);
}

}  // namespace
}  // namespace hbmwire::test
