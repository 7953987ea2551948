// SPDX-License-Identifier: MIT
#include "emulation/nic/rdma_cm/cm.hpp"

#include <atomic>

#include "emulation/nic/state/inode.hpp"

namespace hbmwire::emulation::nic {
namespace {

std::atomic<Cm*> g_cm{nullptr};

}  // namespace

Cm::Cm(Process& joined)
    : process(joined),
      node(inode_of(joined.world().node)),
      ports(joined.world().fabric, node),
      timer(*this) {}

Cm* Cm::join() {
  Process* const joined = Process::join();
  if (joined == nullptr) return nullptr;
  // A forked child is a Process of its own and needs its own Cm.
  Cm* cm = g_cm.load();
  if (cm == nullptr || &cm->process != joined) {
    cm = new Cm(*joined);
    g_cm.store(cm);
  }
  return cm;
}

std::uint64_t current_network() { return inode_of("/proc/thread-self/ns/net"); }

}  // namespace hbmwire::emulation::nic
