// SPDX-License-Identifier: MIT
//
// Only for guests, preloaded before libibverbs: an ibv_reg_dmabuf_mr() for the provider librxe,
// which has none. It makes the same system call as other providers; the driver is the patched rxe
// of tests/kernel/modules. For devices of other providers it calls libibverbs' own function.
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/ioctl.h>

#include <array>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace {

/// struct ib_uverbs_attr
struct Attribute {
  std::uint16_t id;
  std::uint16_t length;
  std::uint16_t flags;
  std::uint16_t reserved;
  std::uint64_t data;
};

static_assert(sizeof(Attribute) == sizeof(ib_uverbs_attr) && sizeof(Attribute) == 16);
static_assert(offsetof(Attribute, data) == offsetof(ib_uverbs_attr, data));

/// struct ib_uverbs_ioctl_hdr, with the attributes of REG_DMABUF_MR
struct Request {
  std::uint16_t length;
  std::uint16_t object;
  std::uint16_t method;
  std::uint16_t count;
  std::uint64_t reserved_a;
  std::uint32_t driver;
  std::uint32_t reserved_b;
  std::array<Attribute, 9> attributes;
};

static_assert(offsetof(Request, attributes) == sizeof(ib_uverbs_ioctl_hdr));
static_assert(offsetof(Request, driver) == offsetof(ib_uverbs_ioctl_hdr, driver_id));

/// The structure of an MR in providers; programs see its first member (rdma-core 44 to 65:
/// libibverbs/driver.h). dereg_mr() of librxe releases it with free(3).
struct VerbsMr {
  ibv_mr mr;
  std::uint32_t type;
  int access;
};

constexpr std::uint32_t kTypeDmabuf = 3;
static_assert(offsetof(VerbsMr, type) == sizeof(ibv_mr) && sizeof(ibv_mr) == 48);

using RegDmabufMr = ibv_mr*(ibv_pd*, std::uint64_t, std::size_t, std::uint64_t, int, int);

Attribute attribute(int id, std::uint16_t length, std::uint64_t data) {
  return {static_cast<std::uint16_t>(id), length, UVERBS_ATTR_F_MANDATORY, 0, data};
}

std::uint64_t place_of(std::uint32_t* number) { return std::bit_cast<std::uintptr_t>(number); }

}  // namespace

extern "C" __attribute__((visibility("default"))) ibv_mr* ibv_reg_dmabuf_mr(
    ibv_pd* pd, std::uint64_t offset, std::size_t length, std::uint64_t iova, int fd, int access) {
  if (!std::string_view(pd->context->device->name).starts_with("rxe")) {
    auto* const next = std::bit_cast<RegDmabufMr*>(::dlsym(RTLD_NEXT, "ibv_reg_dmabuf_mr"));
    return next(pd, offset, length, iova, fd, access);
  }
  auto* const result = static_cast<VerbsMr*>(std::calloc(1, sizeof(VerbsMr)));
  if (result == nullptr) return nullptr;
  Request request{
      .length = sizeof(Request),
      .object = UVERBS_OBJECT_MR,
      .method = UVERBS_METHOD_REG_DMABUF_MR,
      .count = 9,
      .reserved_a = 0,
      .driver = RDMA_DRIVER_RXE,
      .reserved_b = 0,
      .attributes = {
          attribute(UVERBS_ATTR_REG_DMABUF_MR_HANDLE, 0, 0),
          attribute(UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, 0, pd->handle),
          attribute(UVERBS_ATTR_REG_DMABUF_MR_OFFSET, 8, offset),
          attribute(UVERBS_ATTR_REG_DMABUF_MR_LENGTH, 8, length),
          attribute(UVERBS_ATTR_REG_DMABUF_MR_IOVA, 8, iova),
          attribute(UVERBS_ATTR_REG_DMABUF_MR_FD, 4, static_cast<std::uint32_t>(fd)),
          attribute(UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, 4, static_cast<std::uint32_t>(access)),
          attribute(UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, 4, place_of(&result->mr.lkey)),
          attribute(UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, 4, place_of(&result->mr.rkey))}};
  if (::ioctl(pd->context->cmd_fd, RDMA_VERBS_IOCTL, &request) != 0) {
    std::free(result);
    return nullptr;
  }
  result->mr.context = pd->context;
  result->mr.pd = pd;
  result->mr.length = length;
  result->mr.handle = static_cast<std::uint32_t>(request.attributes[0].data);
  result->type = kTypeDmabuf;
  result->access = access;
  return &result->mr;
}
