// SPDX-License-Identifier: MIT
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstring>

#include "emulation/nic/rdma_cm/addressing.hpp"

/// rdma_set_option.
namespace hbmwire::emulation::nic {
namespace {

int set_id_option(CmId& id, std::uint32_t name, const void* value, std::size_t size) {
  const bool is_byte = name == RDMA_OPTION_ID_TOS || name == RDMA_OPTION_ID_ACK_TIMEOUT;
  if (name > RDMA_OPTION_ID_ACK_TIMEOUT) return ENOSYS;
  if (size != (is_byte ? 1 : sizeof(int))) return EINVAL;
  std::uint8_t byte = 0;
  int number = 0;
  std::memcpy(&byte, value, 1);
  if (!is_byte) std::memcpy(&number, value, sizeof number);
  switch (name) {
    case RDMA_OPTION_ID_TOS:
      id.service_type = byte;
      return 0;
    case RDMA_OPTION_ID_REUSEADDR:
      if (id.state != CmaState::idle && (number == 0 || id.state == CmaState::listen)) {
        return EINVAL;
      }
      id.reuse_address = number != 0 ? 1 : 0;
      return 0;
    case RDMA_OPTION_ID_AFONLY:
      if (id.state != CmaState::idle && id.state != CmaState::address_bound) return EINVAL;
      id.family_only = number != 0 ? 1 : 0;
      id.family_only_set = 1;
      return 0;
    default:
      if (id.qp_type != IBV_QPT_RC && id.qp_type != IBV_QPT_XRC_SEND) return EINVAL;
      id.acknowledge_timeout = byte + 1U;
      return 0;
  }
}

/// RDMA_OPTION_IB_PATH: the application supplies a route. RoCE takes most of it from the addresses
/// instead.
int set_path(Cm& cm, CmId& id, const void* value, std::size_t size) {
  ib_path_rec_data record{};
  if (size % sizeof record != 0) return EINVAL;
  for (std::size_t at = 0; at < size; at += sizeof record) {
    std::memcpy(&record, static_cast<const std::byte*>(value) + at, sizeof record);
    // As in the kernel, the first path with these flags counts.
    if (record.flags == (IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL)) {
      return resolve_route(cm, id);
    }
  }
  return EINVAL;
}

}  // namespace

int set_option(Cm& cm, CmId& id, std::uint32_t level, std::uint32_t name, const void* value,
               std::size_t size) {
  if (level == RDMA_OPTION_ID) return set_id_option(id, name, value, size);
  if (level == RDMA_OPTION_IB && name == RDMA_OPTION_IB_PATH) {
    return set_path(cm, id, value, size);
  }
  return ENOSYS;
}

}  // namespace hbmwire::emulation::nic
