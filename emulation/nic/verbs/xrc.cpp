// SPDX-License-Identifier: MIT
#include "emulation/nic/queue/xrc.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>

#include "emulation/nic/queue/qp_table.hpp"
#include "emulation/nic/state/null_with.hpp"
#include "emulation/nic/verbs/objects.hpp"

/// XRC domains and XRC_RECV queue pairs. Both belong to the NIC rather than to a process. As in
/// Linux, each process that opens one has a handle, and the object ends with its last handle. If a
/// process dies, its handles end; a queue pair that others have open stays.
namespace hbmwire::emulation::nic {
namespace {

/// Finds out which file names the domain; with -1 none does. Returns 0 or an errno.
int identify(int fd, int oflags, XrcdRequest& request) {
  if (fd == -1) return 0;

  struct stat status {};

  if (::fstat(fd, &status) != 0) return errno;
  request.device = status.st_dev;
  request.inode = status.st_ino;
  request.may_create = (oflags & O_CREAT) != 0;
  request.must_create = (oflags & O_EXCL) != 0;
  return 0;
}

std::uint64_t id_of(const Xrcd& xrcd) { return xrcd.process->shared().xrcds[xrcd.index].id.load(); }

std::shared_ptr<Qp> new_receiver(Xrcd& xrcd) {
  auto qp = std::make_shared<Qp>();
  qp->process = xrcd.process;
  qp->context = xrcd.context;
  qp->xrcd = &xrcd;
  return qp;
}

/// Opens QP `qpn` for `qp`. Returns 0 or an errno.
int open_handle(const std::shared_ptr<Qp>& object, std::uint32_t qpn) {
  Qp& qp = *object;
  Process& process = *qp.process;
  const EventSource events{qp.context->async_channel, reinterpret_cast<std::uint64_t>(&qp), 0, 0,
                           0};
  const XrcQpClaim claim = open_xrc_qp(process, id_of(*qp.xrcd), qpn, events);
  if (claim.error != 0) return claim.error;
  qp.index = claim.qp;
  qp.xrc_handle = claim.handle;
  // The QP never sends, but code that handles every QP's sender must work with it.
  make_sender(object, nullptr, SendLimits{});
  qp.xrcd->users.fetch_add(1);
  return 0;
}

}  // namespace

ibv_xrcd* open_xrcd(ibv_context* context, ibv_xrcd_init_attr* attributes) {
  constexpr std::uint32_t kRequired = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  ContextState& state = state_of(context);
  Process& process = state.process;
  int error = planned_failure(process, "ibv_open_xrcd");
  if (error == 0 && attributes->comp_mask >= IBV_XRCD_INIT_ATTR_RESERVED) error = EOPNOTSUPP;
  if (error == 0 && (attributes->comp_mask & kRequired) != kRequired) error = EINVAL;
  XrcdRequest request;
  request.nic = state.device.ports.empty() ? 0 : state.device.ports.front().fabric_port;
  if (error == 0) error = identify(attributes->fd, attributes->oflags, request);
  if (error != 0) return null_with(error);
  constexpr int kFirstOwnFd = 3;  // leaves the numbers of the standard streams free
  const int file = request.inode == 0 ? -1 : ::fcntl(attributes->fd, F_DUPFD_CLOEXEC, kFirstOwnFd);
  if (request.inode != 0 && file < 0) return nullptr;
  const XrcdClaim claim = claim_xrcd(process, request);
  if (claim.error != 0) {
    if (file >= 0) ::close(file);
    return null_with(claim.error);
  }
  auto* xrcd = new Xrcd{};
  xrcd->process = &process;
  xrcd->context = &state;
  xrcd->index = claim.index;
  xrcd->file = file;
  xrcd->handle.xrcd.context = context;
  xrcd->handle.handle = claim.index;
  process.count(ObjectKind::xrcd, 1);
  return &xrcd->handle.xrcd;
}

int close_xrcd(ibv_xrcd* handle) {
  const Xrcd& xrcd = object_of<Xrcd>(handle);
  Process& process = *xrcd.process;
  if (const int error = planned_failure(process, "ibv_close_xrcd"); error != 0) return error;
  if (xrcd.users.load() != 0) return EBUSY;
  release_xrcd(process, xrcd.index);
  if (xrcd.file >= 0) ::close(xrcd.file);
  process.count(ObjectKind::xrcd, -1);
  delete &xrcd;
  return 0;
}

/// PD, CQs and SRQ are accepted as in Linux, and ignored: librdmacm passes them.
ibv_qp* create_xrc_receiver(ibv_context* context, const ibv_qp_init_attr_ex& attributes) {
  Process& process = state_of(context).process;
  int error = planned_failure(process, "ibv_create_qp", ObjectKind::qp);
  const bool has_domain = (attributes.comp_mask & IBV_QP_INIT_ATTR_XRCD) != 0 &&
                          attributes.xrcd != nullptr &&
                          object_of<Xrcd>(attributes.xrcd).context == &state_of(context);
  const bool has_basic_srq =
      attributes.srq != nullptr && object_of<Srq>(attributes.srq).xrcd == nullptr;
  if (error == 0 && (!has_domain || has_basic_srq)) error = EINVAL;
  if (error != 0) return null_with(error);
  auto qp = new_receiver(object_of<Xrcd>(attributes.xrcd));
  QpRequest request;
  request.type = IBV_QPT_XRC_RECV;
  request.xrcd = id_of(*qp->xrcd);
  request.room = qp->context->room(&NicLimits::qp);
  const std::uint32_t index = claim_qp(process, request);
  if (index == 0) return nullptr;
  const std::uint32_t qpn = process.shared().qps[index].qpn.load();
  if (error = open_handle(qp, qpn); error != 0) {
    if (stop_qp(process, index)) release_qp(process, index);  // no other process knows of it
    return null_with(error);
  }
  ibv_qp_init_attr plain{};
  plain.qp_context = attributes.qp_context;
  plain.send_cq = attributes.send_cq;
  plain.recv_cq = attributes.recv_cq;
  plain.srq = attributes.srq;
  plain.qp_type = IBV_QPT_XRC_RECV;
  publish_qp(*qp, context, plain);
  if ((attributes.comp_mask & IBV_QP_INIT_ATTR_PD) != 0) qp->handle.qp.pd = attributes.pd;
  return &hand_out(std::move(qp))->handle.qp;
}

ibv_qp* open_qp(ibv_context* context, ibv_qp_open_attr* attributes) {
  constexpr std::uint32_t kRequired =
      IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  int error = planned_failure(state_of(context).process, "ibv_open_qp", ObjectKind::qp);
  if (error == 0 && attributes->comp_mask >= IBV_QP_OPEN_ATTR_RESERVED) error = EOPNOTSUPP;
  const bool valid = (attributes->comp_mask & kRequired) == kRequired &&
                     attributes->qp_type == IBV_QPT_XRC_RECV && attributes->xrcd != nullptr &&
                     object_of<Xrcd>(attributes->xrcd).context == &state_of(context);
  if (error == 0 && !valid) error = EINVAL;
  if (error != 0) return null_with(error);
  auto qp = new_receiver(object_of<Xrcd>(attributes->xrcd));
  if (error = open_handle(qp, attributes->qp_num); error != 0) return null_with(error);
  ibv_qp_init_attr plain{};
  if ((attributes->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT) != 0)
    plain.qp_context = attributes->qp_context;
  plain.qp_type = IBV_QPT_XRC_RECV;
  publish_qp(*qp, context, plain);
  qp->handle.qp.state = IBV_QPS_UNKNOWN;  // until it is queried
  return &hand_out(std::move(qp))->handle.qp;
}

int destroy_xrc_receiver(Qp& qp) {
  Process& process = *qp.process;
  Closed closed = Closed::no;
  {
    const std::lock_guard guard(qp.sender->mutex);
    closed = close_xrc_qp(process, qp.xrc_handle, qp.index);
    if (closed == Closed::no) return EBUSY;
    qp.sender->close_locked();
  }
  withdraw_qp(qp);
  release_xrc_handle(process, qp.xrc_handle);
  if (closed == Closed::was_last) release_qp(process, qp.index);
  qp.xrcd->users.fetch_sub(1);
  process.count(ObjectKind::qp, -1);
  process.write_port_files();
  const auto last = std::move(qp.self);  // a thread that polls may still keep it
  return 0;
}

}  // namespace hbmwire::emulation::nic
