// SPDX-License-Identifier: MIT
#include "emulation/nic/state/allocation.hpp"

namespace hbmwire::emulation::nic {
namespace {

void rebuild_uses(SharedState& shared) {
  TableUses& uses = shared.uses;
  uses.qps.rebuild([&](std::uint32_t i) { return shared.qps[i].claimed != 0; });
  uses.cqs.rebuild([&](std::uint32_t i) { return shared.cqs[i].used.load() != 0; });
  uses.srqs.rebuild([&](std::uint32_t i) { return shared.srqs[i].claimed != 0; });
  uses.mrs.rebuild([&](std::uint32_t i) { return shared.mrs[i].claimed != 0; });
  uses.mws.rebuild([&](std::uint32_t i) { return shared.mws[i].claimed != 0; });
  uses.xrcds.rebuild([&](std::uint32_t i) { return shared.xrcds[i].id.load() != 0; });
  uses.xrc_handles.rebuild([&](std::uint32_t i) { return shared.xrc_handles[i].claimed != 0; });
}

}  // namespace

void Allocation::repair(Process& process) {
  rebuild_uses(process.shared());
  rebuild_heap(process);
}

}  // namespace hbmwire::emulation::nic
