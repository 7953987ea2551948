// SPDX-License-Identifier: MIT
#include <cerrno>
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
  // Without this bit libibverbs removes IBV_ACCESS_RELAXED_ORDERING from the requested rights.
  if (device != nullptr) device->core_support = abi::kOptionalMrAccess;
  return device;
}

void uninit_device(abi::Device* device) { std::free(device); }

// Matches by name, because no modalias and no driver id belongs to this plugin. The pattern is
// libibverbs' own form of a name.
const abi::Match kMatches[] = {{nullptr, {"rdma_device:*Nemu*"}, 0, 0, abi::kMatchModalias},
                               {nullptr, {nullptr}, 0, 0, abi::kMatchEnd}};

const abi::Driver kDriver = {.name = "hbmwire_nic",
                             .lowest_abi_version = 0,
                             .highest_abi_version = 100,  // any: the sysfs tree says 1
                             .match_table = kMatches,
                             .static_providers = nullptr,
                             .match_device = nullptr,
                             .alloc_context = open_context,
                             .import_context = nullptr,
                             .alloc_device = alloc_device,
                             .uninit_device = uninit_device};

/// libibverbs loads a provider, whose constructors must register it.
[[gnu::constructor]] void register_driver() {
  if (!abi::find_libibverbs()) return;
  abi::libibverbs().register_driver(&kDriver);
  install_rdma_cm_hook();
}

template <typename Function>
abi::Entry entry(Function* function) {
  return reinterpret_cast<abi::Entry>(function);
}

/// Wraps a call that returns its error as a positive errno. It also sets errno to that number, as
/// the kernel's ioctl does below other providers: programs that `return -errno` rely on it.
template <auto kFunction>
struct SystemCall;

template <typename... Arguments, int (*kFunction)(Arguments...)>
struct SystemCall<kFunction> {
  static int call(Arguments... arguments) {
    const int error = kFunction(arguments...);
    if (error != 0) errno = error;
    return error;
  }
};

template <auto kFunction>
abi::Entry system_call() {
  return entry(SystemCall<kFunction>::call);
}

/// Answers calls that the device does not offer, as the kernel would. libibverbs' own function
/// would leave errno alone. It serves operations with any arguments, because the caller removes
/// them from the stack.
int refuse_unsupported() { return EOPNOTSUPP; }

std::vector<abi::Entry> make_operations() {
  using abi::Operation;
  // Posting and polling make no system call, so their errors leave errno alone.
  const abi::Implementation implementations[] = {
      {Operation::advise_mr, system_call<refuse_unsupported>()},
      {Operation::alloc_mw, entry(alloc_mw)},
      {Operation::alloc_pd, entry(alloc_pd)},
      {Operation::async_event, entry(async_event)},
      {Operation::attach_mcast, system_call<attach_mcast>()},
      {Operation::bind_mw, system_call<bind_mw>()},
      {Operation::close_xrcd, system_call<close_xrcd>()},
      {Operation::cq_event, entry(cq_event)},
      {Operation::create_ah, entry(create_ah)},
      {Operation::create_cq, entry(create_cq)},
      {Operation::create_cq_ex, entry(create_cq_ex)},
      {Operation::create_qp, entry(create_qp)},
      {Operation::create_qp_ex, entry(create_qp_ex)},
      {Operation::create_srq, entry(create_srq)},
      {Operation::create_srq_ex, entry(create_srq_ex)},
      {Operation::dealloc_mw, system_call<dealloc_mw>()},
      {Operation::dealloc_pd, system_call<dealloc_pd>()},
      {Operation::dereg_mr, system_call<dereg_mr>()},
      {Operation::destroy_ah, system_call<destroy_ah>()},
      {Operation::destroy_cq, system_call<destroy_cq>()},
      {Operation::destroy_qp, system_call<destroy_qp>()},
      {Operation::destroy_srq, system_call<destroy_srq>()},
      {Operation::detach_mcast, system_call<detach_mcast>()},
      {Operation::free_context, entry(close_context)},
      {Operation::get_srq_num, entry(get_srq_num)},
      {Operation::modify_cq, system_call<refuse_unsupported>()},
      {Operation::modify_qp, system_call<modify_qp>()},
      {Operation::modify_qp_rate_limit, system_call<refuse_unsupported>()},
      {Operation::modify_srq, system_call<modify_srq>()},
      {Operation::open_qp, entry(open_qp)},
      {Operation::open_xrcd, entry(open_xrcd)},
      {Operation::poll_cq, entry(poll_cq)},
      {Operation::post_recv, entry(post_recv)},
      {Operation::post_send, entry(post_send)},
      {Operation::post_srq_recv, entry(post_srq_recv)},
      {Operation::query_comp_cntr_caps, system_call<refuse_unsupported>()},
      {Operation::query_device_ex, system_call<query_device>()},
      {Operation::query_ece, system_call<refuse_unsupported>()},
      {Operation::query_port, system_call<query_port>()},
      {Operation::query_port_speed, system_call<refuse_unsupported>()},
      {Operation::query_qp, system_call<query_qp>()},
      {Operation::query_rt_values, system_call<query_rt_values>()},
      {Operation::query_srq, system_call<query_srq>()},
      {Operation::reg_dmabuf_mr, entry(reg_dmabuf_mr)},
      {Operation::reg_mr, entry(reg_mr)},
      {Operation::req_notify_cq, system_call<req_notify_cq>()},
      {Operation::rereg_mr, system_call<rereg_mr>()},
      {Operation::resize_cq, system_call<resize_cq>()},
      {Operation::set_ece, system_call<refuse_unsupported>()},
  };
  return abi::lay_out(*abi::libibverbs().layout, implementations);
}

}  // namespace

const abi::Entry* operations() {
  static const std::vector<abi::Entry> kOnly = make_operations();
  return kOnly.data();
}

}  // namespace hbmwire::emulation::nic
