// SPDX-License-Identifier: MIT
#include <cerrno>
#include <cstring>
#include <span>

#include "emulation/nic/transport/address_handle.hpp"
#include "emulation/nic/verbs/objects.hpp"

/// The ibv_wr_* functions. Requests are staged between wr_start and wr_complete and posted
/// together. If one of them is wrong, wr_complete returns the error and posts none.
namespace hbmwire::emulation::nic {
namespace {

Qp& qp_of(ibv_qp_ex* handle) { return object_of<Qp>(handle); }

/// Keeps the first error, for wr_complete.
void refuse(Qp& qp, int error) {
  if (qp.staging_error == 0) qp.staging_error = error;
}

/// Adds a request to those that wr_complete posts.
Request& stage(ibv_qp_ex* handle, ibv_wr_opcode opcode) {
  Request& request = qp_of(handle).staged.emplace_back().request;
  request.wr_id = handle->wr_id;
  // Only the setters of inline data make a request inline.
  request.flags = handle->wr_flags & ~static_cast<unsigned>(IBV_SEND_INLINE);
  request.opcode = opcode;
  return request;
}

Request& stage_remote(ibv_qp_ex* handle, ibv_wr_opcode opcode, std::uint32_t rkey,
                      std::uint64_t address) {
  Request& request = stage(handle, opcode);
  request.rkey = rkey;
  request.remote_address = address;
  return request;
}

/// The request that a setter of data applies to. Null if there is none, or if it takes no data.
StagedRequest* data_of_last(ibv_qp_ex* handle) {
  Qp& qp = qp_of(handle);
  StagedRequest* staged = qp.staged.empty() ? nullptr : &qp.staged.back();
  if (staged != nullptr && !traits_of(staged->request.opcode)->stays_here) return staged;
  refuse(qp, EINVAL);
  return nullptr;
}

void set_elements(ibv_qp_ex* handle, std::span<const ibv_sge> elements) {
  if (StagedRequest* staged = data_of_last(handle))
    staged->elements.assign(elements.begin(), elements.end());
}

void set_inline(ibv_qp_ex* handle, std::span<const ibv_data_buf> buffers) {
  StagedRequest* staged = data_of_last(handle);
  if (staged == nullptr) return;
  staged->inline_data.clear();
  staged->request.flags |= IBV_SEND_INLINE;
  for (const ibv_data_buf& buffer : buffers) {
    const auto* bytes = static_cast<const std::byte*>(buffer.addr);
    staged->inline_data.insert(staged->inline_data.end(), bytes, bytes + buffer.length);
  }
}

void set_ud_address(ibv_qp_ex* handle, ibv_ah* ah, std::uint32_t qpn, std::uint32_t qkey) {
  Qp& qp = qp_of(handle);
  if (qp.staged.empty() || ah == nullptr || handle->qp_base.qp_type != IBV_QPT_UD)
    return refuse(qp, EINVAL);
  StagedRequest& staged = qp.staged.back();
  staged.request.address = address_of(*ah);
  staged.request.remote_qpn = qpn;
  staged.request.remote_qkey = qkey;
  staged.addressed = true;
}

void set_xrc_srqn(ibv_qp_ex* handle, std::uint32_t srqn) {
  Qp& qp = qp_of(handle);
  if (qp.staged.empty() || handle->qp_base.qp_type != IBV_QPT_XRC_SEND) return refuse(qp, EINVAL);
  qp.staged.back().request.remote_srqn = srqn;
  qp.staged.back().addressed = true;
}

/// man ibv_wr_post: a request of a UD or XRC QP needs the setter of that QP type.
bool is_addressed(const Qp& qp, const StagedRequest& staged) {
  const ibv_qp_type type = qp.handle.qp.qp_type;
  const bool takes_setter = (type == IBV_QPT_UD || type == IBV_QPT_XRC_SEND) &&
                            !traits_of(staged.request.opcode)->stays_here;
  return staged.addressed || !takes_setter;
}

void start(ibv_qp_ex* handle) {
  Qp& qp = qp_of(handle);
  qp.staging_mutex.lock();
  qp.staged.clear();
  qp.staging_error = 0;
}

void abort(ibv_qp_ex* handle) { qp_of(handle).staging_mutex.unlock(); }

int post_staged(Qp& qp) {
  if (const int error = data_path_failure(*qp.process, "ibv_wr_complete"); error != 0) return error;
  std::vector<Request> requests;
  requests.reserve(qp.staged.size());
  for (StagedRequest& staged : qp.staged) {
    if (!is_addressed(qp, staged)) refuse(qp, EINVAL);
    if (staged.request.inlined()) {
      staged.elements.assign(1, {reinterpret_cast<std::uint64_t>(staged.inline_data.data()),
                                 static_cast<std::uint32_t>(staged.inline_data.size()), 0});
    }
    staged.request.elements = staged.elements;
    requests.push_back(staged.request);
  }
  return qp.staging_error != 0 ? qp.staging_error : qp.sender->post_all(requests);
}

int complete_staged(ibv_qp_ex* handle) {
  Qp& qp = qp_of(handle);
  const int error = post_staged(qp);
  qp.staging_mutex.unlock();
  return error;
}

void set_send_functions(ibv_qp_ex& qp) {
  qp.wr_send = [](ibv_qp_ex* to) { stage(to, IBV_WR_SEND); };
  qp.wr_send_imm = [](ibv_qp_ex* to, __be32 data) {
    stage(to, IBV_WR_SEND_WITH_IMM).immediate = data;
  };
  qp.wr_send_inv = [](ibv_qp_ex* to, std::uint32_t key) {
    stage(to, IBV_WR_SEND_WITH_INV).invalidate_key = key;
  };
  qp.wr_send_tso = [](ibv_qp_ex* to, void* /*header*/, std::uint16_t /*bytes*/,
                      std::uint16_t /*mss*/) { refuse(qp_of(to), EOPNOTSUPP); };
  qp.wr_bind_mw = [](ibv_qp_ex* to, ibv_mw* window, std::uint32_t rkey,
                     const ibv_mw_bind_info* info) {
    stage(to, IBV_WR_BIND_MW).binding =
        binding_of(*qp_of(to).process, window, IBV_MW_TYPE_2, rkey, *info);
  };
  qp.wr_local_inv = [](ibv_qp_ex* to, std::uint32_t key) {
    stage(to, IBV_WR_LOCAL_INV).invalidate_key = key;
  };
}

void set_remote_functions(ibv_qp_ex& qp) {
  qp.wr_rdma_write = [](ibv_qp_ex* to, std::uint32_t rkey, std::uint64_t address) {
    stage_remote(to, IBV_WR_RDMA_WRITE, rkey, address);
  };
  qp.wr_rdma_write_imm = [](ibv_qp_ex* to, std::uint32_t rkey, std::uint64_t address, __be32 data) {
    stage_remote(to, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, address).immediate = data;
  };
  qp.wr_rdma_read = [](ibv_qp_ex* to, std::uint32_t rkey, std::uint64_t address) {
    stage_remote(to, IBV_WR_RDMA_READ, rkey, address);
  };
  qp.wr_atomic_cmp_swp = [](ibv_qp_ex* to, std::uint32_t rkey, std::uint64_t address,
                            std::uint64_t compare, std::uint64_t swap) {
    Request& request = stage_remote(to, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, address);
    request.compare_add = compare;
    request.swap = swap;
  };
  qp.wr_atomic_fetch_add = [](ibv_qp_ex* to, std::uint32_t rkey, std::uint64_t address,
                              std::uint64_t add) {
    stage_remote(to, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, address).compare_add = add;
  };
}

/// Refuses ibv_wr_atomic_write and ibv_wr_flush. The loaded libibverbs may have them although the
/// headers do not. They are the last functions. One function can answer them, because a C function
/// may ignore its further arguments.
void refuse_later_functions(ibv_qp_ex& qp) {
  void (*const refuse_one)(ibv_qp_ex*) = [](ibv_qp_ex* to) { refuse(qp_of(to), EOPNOTSUPP); };
  const std::size_t end = abi::libibverbs().extended_qp_bytes;
  for (std::size_t at = abi::kFirstExtendedQpBytes; at < end; at += sizeof refuse_one)
    std::memcpy(reinterpret_cast<std::byte*>(&qp) + at, &refuse_one, sizeof refuse_one);
}

}  // namespace

/// Sets all functions, for every QP type: wr_complete refuses requests that the type cannot post.
void set_work_request_functions(ibv_qp_ex& qp) {
  qp.wr_start = start;
  qp.wr_abort = abort;
  qp.wr_complete = complete_staged;
  set_send_functions(qp);
  set_remote_functions(qp);
  refuse_later_functions(qp);
  qp.wr_set_ud_addr = set_ud_address;
  qp.wr_set_xrc_srqn = set_xrc_srqn;
  qp.wr_set_sge = [](ibv_qp_ex* to, std::uint32_t lkey, std::uint64_t address,
                     std::uint32_t length) {
    const ibv_sge element{address, length, lkey};
    set_elements(to, {&element, 1});
  };
  qp.wr_set_sge_list = [](ibv_qp_ex* to, std::size_t count, const ibv_sge* elements) {
    set_elements(to, {elements, count});
  };
  qp.wr_set_inline_data = [](ibv_qp_ex* to, void* data, std::size_t length) {
    const ibv_data_buf buffer{data, length};
    set_inline(to, {&buffer, 1});
  };
  qp.wr_set_inline_data_list = [](ibv_qp_ex* to, std::size_t count, const ibv_data_buf* buffers) {
    set_inline(to, {buffers, count});
  };
}

}  // namespace hbmwire::emulation::nic
