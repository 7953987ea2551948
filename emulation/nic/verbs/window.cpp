// SPDX-License-Identifier: MIT
#include "emulation/nic/memory/window.hpp"

#include <cerrno>
#include <memory>

#include "emulation/nic/abi/raw_enum.hpp"
#include "emulation/nic/state/null_with.hpp"
#include "emulation/nic/verbs/objects.hpp"

/// ibv_alloc_mw, ibv_dealloc_mw, ibv_bind_mw. Windows of type 2 are bound by IBV_WR_BIND_MW.
namespace hbmwire::emulation::nic {

ibv_mw* alloc_mw(ibv_pd* handle, ibv_mw_type type) {
  Pd& pd = object_of<Pd>(handle);
  Process& process = *pd.process;
  const std::uint32_t kind = raw_value(type);
  int error = planned_failure(process, "ibv_alloc_mw", ObjectKind::mw);
  if (error == 0 && kind != IBV_MW_TYPE_1 && kind != IBV_MW_TYPE_2) error = EINVAL;
  const std::uint32_t index = error == 0 ? claim_window(process, pd.id, type) : 0;
  if (error == 0 && index == 0) error = errno;
  if (error != 0) return null_with(error);
  // libibverbs does not fill in the handle of a window.
  auto mw = std::make_unique<Mw>();
  mw->handle.context = handle->context;
  mw->handle.pd = handle;
  mw->handle.rkey = process.shared().mws[index].key.load();
  mw->handle.handle = index;
  mw->handle.type = type;
  mw->process = &process;
  mw->pd = &pd;
  pd.users.fetch_add(1);
  process.count(ObjectKind::mw, 1);
  return &mw.release()->handle;
}

int dealloc_mw(ibv_mw* handle) {
  Mw& mw = object_of<Mw>(handle);
  if (const int error = planned_failure(*mw.process, "ibv_dealloc_mw"); error != 0) return error;
  if (const int error = release_window(*mw.process, handle->handle); error != 0) return error;
  mw.pd->users.fetch_sub(1);
  mw.process->count(ObjectKind::mw, -1);
  delete &mw;
  return 0;
}

/// libibverbs has refused type 2, and a PD other than the MR's. Errors that an HCA finds are
/// reported by the completion.
int bind_mw(ibv_qp* handle, ibv_mw* mw, ibv_mw_bind* bind) {
  Qp& qp = object_of<Qp>(handle);
  const ibv_mw_bind_info& info = bind->bind_info;
  int error = data_path_failure(*qp.process, "ibv_bind_mw");
  if (error == 0 && (info.mw_access_flags & IBV_ACCESS_ZERO_BASED) != 0) error = EINVAL;
  // As with mlx5: the MR of a dma-buf takes only windows of type 2.
  if (error == 0 && info.mr != nullptr && object_of<Mr>(info.mr).handle.type != abi::kMrOfMemory)
    error = EOPNOTSUPP;
  const std::uint32_t rkey = ibv_inc_rkey(mw->rkey);
  if (error == 0) {
    Request request;
    request.wr_id = bind->wr_id;
    request.opcode = IBV_WR_BIND_MW;
    request.flags = bind->send_flags;
    request.binding = binding_of(*qp.process, mw, IBV_MW_TYPE_1, rkey, info);
    error = qp.sender->post_all({&request, 1});
  }
  if (error == 0) mw->rkey = rkey;  // "in case of a success" means success of posting
  return error;
}

}  // namespace hbmwire::emulation::nic
