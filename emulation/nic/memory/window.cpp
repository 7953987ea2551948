// SPDX-License-Identifier: MIT
#include "emulation/nic/memory/window.hpp"

#include <algorithm>
#include <cerrno>
#include <mutex>

#include "emulation/common/fault_step.hpp"
#include "emulation/nic/state/activity.hpp"
#include "emulation/nic/state/allocation.hpp"

namespace hbmwire::emulation::nic {
namespace {

/// Rights that change the MR's memory, so the MR must allow local writes.
constexpr std::uint32_t kWriting = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
/// Local write has no meaning for a window, but HCAs accept it.
constexpr std::uint32_t kWindowAccess =
    kWriting | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED;

MwRecord* window_of_key(Process& process, std::uint32_t key) {
  const std::uint32_t index = (key >> 8U) - kMaxMrs;  // for an MR's key it wraps and is too large
  return index == 0 || index >= kMaxMws ? nullptr : &process.shared().mws[index];
}

bool contains(std::uint64_t start, std::uint64_t length, std::uint64_t address,
              std::uint64_t bytes) {
  return address >= start && bytes <= length && address - start <= length - bytes;
}

/// The requirements of a window on its MR: IBTA vol. 1, C10-73 to C10-75.
bool mr_may_be_bound(Process& process, std::uint64_t pd, const Binding& binding) {
  if (binding.mr == 0 || binding.mr >= kMaxMrs) return false;
  const MrRecord& mr = process.shared().mrs[binding.mr];
  if (mr.key.load() != binding.mr_key || mr.owner.load() != process.slot() || mr.pd != pd)
    return false;
  if ((mr.access & IBV_ACCESS_MW_BIND) == 0 || (mr.access & IBV_ACCESS_ZERO_BASED) != 0)
    return false;
  if ((binding.access & kWriting) != 0 && (mr.access & IBV_ACCESS_LOCAL_WRITE) == 0) return false;
  return contains(mr.iova, mr.length, binding.address, binding.length);
}

bool may_bind(Process& process, const QpRecord& qp, const MwRecord& mw, const Binding& binding) {
  if (mw.key.load() == 0 || mw.serial != binding.serial || mw.pd != qp.pd) return false;
  if ((binding.access & ~kWindowAccess) != 0) return false;
  const bool type_2 = mw.type == IBV_MW_TYPE_2;
  // A bound type 2 window must be invalidated before it is bound again, and a bind of length 0 does
  // not do that (o10-37.2.30, o10-37.2.40).
  if (type_2 && (mw.mr.load() != 0 || binding.length == 0)) return false;
  if (!type_2 && (binding.access & IBV_ACCESS_ZERO_BASED) != 0) return false;
  return binding.length == 0 || mr_may_be_bound(process, mw.pd, binding);
}

/// Stores `mr` last, because readers look at it first.
void bind(MwRecord& mw, std::uint32_t qpn, const Binding& binding) {
  mw.access = binding.access;
  mw.address = binding.address;
  mw.length = binding.length;
  mw.qpn.store(qpn);
  mw.key.store(mw_key(binding.window, binding.rkey));
  mw.mr.store(binding.length == 0 ? 0 : binding.mr, std::memory_order_release);
}

}  // namespace

Binding binding_of(const Process& process, const ibv_mw* mw, ibv_mw_type type, std::uint32_t rkey,
                   const ibv_mw_bind_info& info) {
  Binding binding;
  if (mw == nullptr || mw->type != type) return binding;
  if (info.mr == nullptr && (type == IBV_MW_TYPE_2 || info.length != 0)) return binding;
  binding.window = mw->handle;
  binding.serial = process.shared().mws[mw->handle].serial;
  binding.rkey = rkey;
  binding.access = info.mw_access_flags;
  binding.address = info.addr;
  binding.length = info.length;
  if (info.mr != nullptr) {
    binding.mr = info.mr->handle;
    binding.mr_key = info.mr->lkey;
  }
  return binding;
}

std::uint32_t claim_window(Process& process, std::uint64_t pd, ibv_mw_type type) {
  SharedState& shared = process.shared();
  const Allocation guard(process);
  if (!guard.held()) {
    errno = EBUSY;
    return 0;
  }
  const std::uint32_t index = shared.uses.mws.claim();
  if (index == 0) {
    errno = ENOMEM;
    return 0;
  }
  MwRecord& mw = shared.mws[index];
  mw.owner.store(process.slot());
  mw.claimed = 1;
  fault_step("claimed");
  mw.tag = (mw.tag + 1) & 0xffU;
  mw.type = static_cast<std::uint32_t>(type);
  mw.pd = pd;
  mw.serial = process.new_id();
  mw.mr.store(0);
  mw.qpn.store(0);
  mw.key.store(mw_key(index, mw.tag));
  return index;
}

int release_window(Process& process, std::uint32_t index) {
  MwRecord& mw = process.shared().mws[index];
  {
    const std::lock_guard guard(process.windows);
    const std::uint32_t key = mw.key.exchange(0);
    const std::uint32_t mr = mw.mr.exchange(0);
    if (!wait_for_activity(process)) {
      mw.key.store(key);
      mw.mr.store(mr);
      return EBUSY;
    }
  }
  release_record(process, [&process, &mw, index] {
    fault_step("released");
    mw.claimed = 0;
    process.shared().uses.mws.release(index);
  });
  return 0;
}

bool is_bound(Process& process, std::uint32_t mr) {
  if (process.live(ObjectKind::mw) == 0) return false;
  SharedState& shared = process.shared();
  for (const MwRecord& mw : in_use(shared.mws, shared.uses.mws)) {
    if (mw.mr.load() == mr && mw.owner.load() == process.slot()) return true;
  }
  return false;
}

WindowChange bind_window(Process& process, QpRecord& qp, const Binding& binding) {
  const std::lock_guard guard(process.windows);
  MwRecord& mw = process.shared().mws[binding.window];
  if (!may_bind(process, qp, mw, binding)) return WindowChange::refused;
  if (mw.type == IBV_MW_TYPE_2) {
    const FavouredHold responder(qp.responder, Place::responder);
    if (!responder.held()) return WindowChange::held;
    bind(mw, qp.qpn.load(), binding);
    return WindowChange::done;
  }
  // Waits until requests that use the old key are over, before the new key is valid.
  if (const std::uint32_t mr = mw.mr.exchange(0); mr != 0 && !wait_for_activity(process)) {
    mw.mr.store(mr);
    return WindowChange::held;
  }
  bind(mw, 0, binding);
  return WindowChange::done;
}

WindowChange invalidate_here(Process& process, QpRecord& qp, std::uint32_t key) {
  const std::lock_guard guard(process.windows);
  const FavouredHold responder(qp.responder, Place::responder);
  if (!responder.held()) return WindowChange::held;
  const bool done = invalidate_window(process, {process.slot(), qp.pd}, qp.qpn.load(), key);
  return done ? WindowChange::done : WindowChange::refused;
}

bool invalidate_window(Process& process, const Party& party, std::uint32_t qpn, std::uint32_t key) {
  MwRecord* mw = window_of_key(process, key);
  if (mw == nullptr || mw->mr.load(std::memory_order_acquire) == 0 || mw->key.load() != key)
    return false;
  if (mw->owner.load() != party.slot || mw->pd != party.pd) return false;
  if (mw->type != IBV_MW_TYPE_2 || mw->qpn.load() != qpn) return false;
  mw->mr.store(0);
  return true;
}

const MrRecord* behind_window(Process& process, const Party& party, const Access& access,
                              std::uint64_t& address) {
  const MwRecord* mw = window_of_key(process, access.key);
  // A window's key is never an lkey: only a request that came in on a QP may use it.
  if (mw == nullptr || access.qpn == 0) return nullptr;
  const std::uint32_t mr = mw->mr.load(std::memory_order_acquire);
  if (mr == 0 || mw->key.load() != access.key) return nullptr;
  if (mw->owner.load() != party.slot || mw->pd != party.pd) return nullptr;
  if (mw->type == IBV_MW_TYPE_2 && mw->qpn.load() != access.qpn) return nullptr;
  if ((access.rights & ~mw->access) != 0) return nullptr;
  const std::uint64_t start = (mw->access & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : mw->address;
  if (!contains(start, mw->length, access.address, access.length)) return nullptr;
  if (process.shared().mrs[mr].key.load(std::memory_order_relaxed) == 0) return nullptr;  // revoked
  address = mw->address + (access.address - start);
  return &process.shared().mrs[mr];
}

MrRecord* mr_of_window(Process& process, const Party& party, std::uint32_t key) {
  const MwRecord* mw = window_of_key(process, key);
  if (mw == nullptr || mw->key.load() != key || mw->owner.load() != party.slot) return nullptr;
  const std::uint32_t mr = mw->mr.load(std::memory_order_acquire);
  return mr == 0 ? nullptr : &process.shared().mrs[mr];
}

}  // namespace hbmwire::emulation::nic
