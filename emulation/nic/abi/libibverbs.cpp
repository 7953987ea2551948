// SPDX-License-Identifier: MIT
#include "emulation/nic/abi/libibverbs.hpp"

#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <string>

namespace hbmwire::emulation::nic::abi {
namespace {

/// A bit of verbs_qp::comp_mask, which follows ibv_qp_ex.
constexpr std::uint32_t kIsExtended = 1U << 1U;

Libibverbs& only() {
  static Libibverbs library;
  return library;
}

void set_bit(QueuePair& qp, std::size_t offset) {
  std::memcpy(reinterpret_cast<std::byte*>(&qp) + offset, &kIsExtended, sizeof kIsExtended);
}

/// Finds out libibverbs' sizeof(ibv_qp_ex). It grew with rdma-core 44 and 45 without a change of N
/// or of a symbol. So it tries each place for the bit: libibverbs returns the QP if the bit is
/// where it looks for it. Returns 0 if no place works.
std::size_t ask_for_extended_qp_bytes(ibv_qp_ex* (*to_extended)(ibv_qp*)) {
  constexpr std::size_t kBehindIt = sizeof(QueuePair) - sizeof(VerbsQpEnd);
  for (std::size_t bytes = kFirstExtendedQpBytes; bytes <= kBehindIt; bytes += sizeof(Entry)) {
    QueuePair qp;
    std::memset(&qp, 0, sizeof qp);
    set_bit(qp, bytes);
    if (to_extended(&qp.qp) != nullptr) return bytes;
  }
  return 0;
}

template <typename Function>
bool find(void* library, const std::string& name, const std::string& version, Function*& found) {
  found = reinterpret_cast<Function*>(::dlvsym(library, name.c_str(), version.c_str()));
  return found != nullptr;
}

bool find_functions(void* library, Libibverbs& into) {
  const std::string number = std::to_string(into.layout->abi);
  const std::string version = "IBVERBS_PRIVATE_" + number;
  ibv_qp_ex* (*to_extended)(ibv_qp*) = nullptr;
  const bool all =
      find(library, "verbs_register_driver_" + number, version, into.register_driver) &&
      find(library, "_verbs_init_and_alloc_context", version, into.init_and_alloc_context) &&
      find(library, "verbs_uninit_context", version, into.uninit_context) &&
      find(library, "verbs_set_ops", version, into.set_ops) &&
      find(library, "ibv_qp_to_qp_ex", "IBVERBS_1.6", to_extended);
  if (!all) return false;
  into.extended_qp_bytes = ask_for_extended_qp_bytes(to_extended);
  return into.extended_qp_bytes != 0;
}

}  // namespace

bool find_libibverbs() {
  // Never closed: the plugin, too, stays loaded until the process ends.
  void* const library = ::dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) {
    std::fputs("emulated NIC: no libibverbs.so.1 is loaded, so there is none to serve\n", stderr);
    return false;
  }
  Libibverbs found;
  found.layout = find_layout(library);
  if (found.layout == nullptr || !find_functions(library, found)) {
    std::fprintf(stderr,
                 "emulated NIC: the loaded libibverbs (rdma-core %s) has a private interface that "
                 "is not known here, so it gets no emulated NICs; install %s\n",
                 release_of(library).c_str(), known_releases().c_str());
    return false;
  }
  only() = found;
  return true;
}

const Libibverbs& libibverbs() { return only(); }

void mark_extended(QueuePair& qp) { set_bit(qp, libibverbs().extended_qp_bytes); }

}  // namespace hbmwire::emulation::nic::abi
