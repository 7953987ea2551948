// SPDX-License-Identifier: MIT
#include <cstdlib>
#include <vector>

#include "emulation/nic/abi/libibverbs.hpp"
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
  if (!abi::find_libibverbs()) return;
  abi::libibverbs().register_driver(&kDriver);
  install_rdma_cm_hook();
}

template <typename Function>
abi::Entry entry(Function* function) {
  return reinterpret_cast<abi::Entry>(function);
}

std::vector<abi::Entry> make_operations() {
  using abi::Operation;
  const abi::Implementation implementations[] = {
      {Operation::alloc_mw, entry(alloc_mw)},
      {Operation::alloc_pd, entry(alloc_pd)},
      {Operation::async_event, entry(async_event)},
      {Operation::attach_mcast, entry(attach_mcast)},
      {Operation::bind_mw, entry(bind_mw)},
      {Operation::close_xrcd, entry(close_xrcd)},
      {Operation::cq_event, entry(cq_event)},
      {Operation::create_ah, entry(create_ah)},
      {Operation::create_cq, entry(create_cq)},
      {Operation::create_cq_ex, entry(create_cq_ex)},
      {Operation::create_qp, entry(create_qp)},
      {Operation::create_qp_ex, entry(create_qp_ex)},
      {Operation::create_srq, entry(create_srq)},
      {Operation::create_srq_ex, entry(create_srq_ex)},
      {Operation::dealloc_mw, entry(dealloc_mw)},
      {Operation::dealloc_pd, entry(dealloc_pd)},
      {Operation::dereg_mr, entry(dereg_mr)},
      {Operation::destroy_ah, entry(destroy_ah)},
      {Operation::destroy_cq, entry(destroy_cq)},
      {Operation::destroy_qp, entry(destroy_qp)},
      {Operation::destroy_srq, entry(destroy_srq)},
      {Operation::detach_mcast, entry(detach_mcast)},
      {Operation::free_context, entry(close_context)},
      {Operation::get_srq_num, entry(get_srq_num)},
      {Operation::modify_qp, entry(modify_qp)},
      {Operation::modify_srq, entry(modify_srq)},
      {Operation::open_qp, entry(open_qp)},
      {Operation::open_xrcd, entry(open_xrcd)},
      {Operation::poll_cq, entry(poll_cq)},
      {Operation::post_recv, entry(post_recv)},
      {Operation::post_send, entry(post_send)},
      {Operation::post_srq_recv, entry(post_srq_recv)},
      {Operation::query_device_ex, entry(query_device)},
      {Operation::query_port, entry(query_port)},
      {Operation::query_qp, entry(query_qp)},
      {Operation::query_rt_values, entry(query_rt_values)},
      {Operation::query_srq, entry(query_srq)},
      {Operation::reg_dmabuf_mr, entry(reg_dmabuf_mr)},
      {Operation::reg_mr, entry(reg_mr)},
      {Operation::req_notify_cq, entry(req_notify_cq)},
      {Operation::rereg_mr, entry(rereg_mr)},
      {Operation::resize_cq, entry(resize_cq)},
  };
  return abi::lay_out(*abi::libibverbs().layout, implementations);
}

}  // namespace

const abi::Entry* operations() {
  static const std::vector<abi::Entry> kOnly = make_operations();
  return kOnly.data();
}

}  // namespace hbmwire::emulation::nic
