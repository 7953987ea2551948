// SPDX-License-Identifier: MIT
#include <cerrno>

#include "emulation/nic/verbs/objects.hpp"

/// The ibv_wr_* functions: requests are staged between wr_start and wr_complete, and posted
/// together.
namespace hbmwire::emulation::nic {
namespace {

Qp& qp_of(ibv_qp_ex* handle) { return object_of<Qp>(handle); }

StagedRequest& last(ibv_qp_ex* handle) { return qp_of(handle).staged.back(); }

Request& stage(ibv_qp_ex* handle, ibv_wr_opcode opcode) {
  Request& request = qp_of(handle).staged.emplace_back().request;
  request.wr_id = handle->wr_id;
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

void add_inline(StagedRequest& staged, const void* data, std::size_t length) {
  const auto* bytes = static_cast<const std::byte*>(data);
  staged.inline_data.insert(staged.inline_data.end(), bytes, bytes + length);
  staged.request.flags |= IBV_SEND_INLINE;
}

void start(ibv_qp_ex* handle) {
  Qp& qp = qp_of(handle);
  qp.staging_mutex.lock();
  qp.staged.clear();
}

void abort(ibv_qp_ex* handle) { qp_of(handle).staging_mutex.unlock(); }

int complete_staged(ibv_qp_ex* handle) {
  Qp& qp = qp_of(handle);
  std::vector<Request> requests;
  requests.reserve(qp.staged.size());
  for (StagedRequest& staged : qp.staged) {
    if (staged.request.inlined()) {
      staged.elements.assign(1, {reinterpret_cast<std::uint64_t>(staged.inline_data.data()),
                                 static_cast<std::uint32_t>(staged.inline_data.size()), 0});
    }
    staged.request.elements = staged.elements;
    requests.push_back(staged.request);
  }
  const int error = qp.process->abandoned() ? EIO : qp.sender->post_all(requests);
  qp.staging_mutex.unlock();
  return error;
}

}  // namespace

void set_work_request_functions(ibv_qp_ex& qp) {
  qp.wr_start = start;
  qp.wr_abort = abort;
  qp.wr_complete = complete_staged;
  qp.wr_send = [](ibv_qp_ex* to) { stage(to, IBV_WR_SEND); };
  qp.wr_send_imm = [](ibv_qp_ex* to, __be32 data) {
    stage(to, IBV_WR_SEND_WITH_IMM).immediate = data;
  };
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
  qp.wr_set_sge = [](ibv_qp_ex* to, std::uint32_t lkey, std::uint64_t address,
                     std::uint32_t length) {
    last(to).elements.assign(1, {address, length, lkey});
  };
  qp.wr_set_sge_list = [](ibv_qp_ex* to, std::size_t count, const ibv_sge* elements) {
    last(to).elements.assign(elements, elements + count);
  };
  qp.wr_set_inline_data = [](ibv_qp_ex* to, void* data, std::size_t length) {
    add_inline(last(to), data, length);
  };
  qp.wr_set_inline_data_list = [](ibv_qp_ex* to, std::size_t count, const ibv_data_buf* buffers) {
    last(to).request.flags |= IBV_SEND_INLINE;
    for (std::size_t index = 0; index < count; ++index)
      add_inline(last(to), buffers[index].addr, buffers[index].length);
  };
}

}  // namespace hbmwire::emulation::nic
