// SPDX-License-Identifier: MIT
#include <cstdlib>

#include "emulation/nic/abi/provider_abi_34.hpp"
#include "emulation/nic/hook/rdma_cm_hook.hpp"
#include "emulation/nic/verbs/objects.hpp"
#include "emulation/nic/verbs/operations.hpp"

namespace hbmwire::emulation::nic {
namespace {

abi::Device* alloc_device(abi::SysfsDevice* /*found*/) {
  auto* device = static_cast<abi::Device*>(std::calloc(1, sizeof(abi::Device)));
  // Else libibverbs takes IBV_ACCESS_RELAXED_ORDERING out of what is asked for.
  if (device != nullptr) device->core_support = abi::kOptionalMrAccess;
  return device;
}

void uninit_device(abi::Device* device) { std::free(device); }

// By name, as no modalias and no driver id is ours to claim. The pattern is libibverbs' own form of
// a name.
const abi::Match kMatches[] = {{nullptr, {"rdma_device:*Nemu*"}, 0, 0, abi::kMatchModalias},
                               {nullptr, {nullptr}, 0, 0, abi::kMatchEnd}};

const abi::Driver kDriver = {"hbmwire_nic", 0,       100,          kMatches,     nullptr, nullptr,
                             open_context,  nullptr, alloc_device, uninit_device};

/// libibverbs loads a provider for what its constructors register.
[[gnu::constructor]] void register_driver() {
  abi::verbs_register_driver_34(&kDriver);
  install_rdma_cm_hook();
}

abi::Operations make_operations() {
  abi::Operations operations{};
  operations.alloc_mw = alloc_mw;
  operations.alloc_pd = alloc_pd;
  operations.async_event = async_event;
  operations.attach_mcast = attach_mcast;
  operations.bind_mw = bind_mw;
  operations.close_xrcd = close_xrcd;
  operations.cq_event = cq_event;
  operations.create_ah = create_ah;
  operations.create_cq = create_cq;
  operations.create_cq_ex = create_cq_ex;
  operations.create_qp = create_qp;
  operations.create_qp_ex = create_qp_ex;
  operations.create_srq = create_srq;
  operations.create_srq_ex = create_srq_ex;
  operations.dealloc_mw = dealloc_mw;
  operations.dealloc_pd = dealloc_pd;
  operations.dereg_mr = dereg_mr;
  operations.destroy_ah = destroy_ah;
  operations.destroy_cq = destroy_cq;
  operations.destroy_qp = destroy_qp;
  operations.destroy_srq = destroy_srq;
  operations.detach_mcast = detach_mcast;
  operations.free_context = close_context;
  operations.get_srq_num = get_srq_num;
  operations.modify_qp = modify_qp;
  operations.modify_srq = modify_srq;
  operations.open_qp = open_qp;
  operations.open_xrcd = open_xrcd;
  operations.poll_cq = poll_cq;
  operations.post_recv = post_recv;
  operations.post_send = post_send;
  operations.post_srq_recv = post_srq_recv;
  operations.query_device_ex = query_device;
  operations.query_port = query_port;
  operations.query_qp = query_qp;
  operations.query_rt_values = query_rt_values;
  operations.query_srq = query_srq;
  operations.reg_dmabuf_mr = reg_dmabuf_mr;
  operations.reg_mr = reg_mr;
  operations.req_notify_cq = req_notify_cq;
  operations.rereg_mr = rereg_mr;
  operations.resize_cq = resize_cq;
  return operations;
}

}  // namespace

const abi::Operations& operations() {
  static const abi::Operations kOnly = make_operations();
  return kOnly;
}

}  // namespace hbmwire::emulation::nic
