// SPDX-License-Identifier: MIT
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "emulation/nic/memory/region.hpp"
#include "emulation/nic/state/process.hpp"

/// Memory windows: keys to a part of an MR, for remote access only. A type 1 serves every QP of its
/// protection domain; a type 2 is a 2B, it serves the QP that it was bound on.
namespace hbmwire::emulation::nic {

/// What a bind request asks for. It names window and MR so that one which is gone by the time, or
/// has another in its place, is noticed.
struct Binding {
  std::uint32_t window = 0;  // index, 0: not a request that can be posted
  std::uint64_t serial = 0;  // of the window
  std::uint32_t mr = 0;
  std::uint32_t mr_key = 0;
  std::uint32_t rkey = 0;  // of which the low 8 bits count
  std::uint32_t access = 0;
  std::uint64_t address = 0;
  std::uint64_t length = 0;
};

/// The request to bind `mw`, which is to be of `type`: ibv_bind_mw takes type 1, ibv_post_send
/// type 2.
Binding binding_of(const Process& process, const ibv_mw* mw, ibv_mw_type type, std::uint32_t rkey,
                   const ibv_mw_bind_info& info);

/// Index of a new window that is not bound, or 0 with errno.
std::uint32_t claim_window(Process& process, std::uint64_t pd, ibv_mw_type type);

/// Unbinds the window and gives its record back; when it returns no byte changes through it. EBUSY,
/// and it is as it was: a process was stopped over a request that may use it.
int release_window(Process& process, std::uint32_t index);

/// Whether a window is bound to an MR of this process. Process::windows is held.
bool is_bound(Process& process, std::uint32_t mr);

/// `refused`: it is not allowed. `held`: a process was stopped over what is to change. In both
/// cases nothing has changed.
enum class WindowChange : std::uint8_t { done, refused, held };

/// Binds a window by a request on `qp`, one of this process. The caller is in no Activity.
WindowChange bind_window(Process& process, QpRecord& qp, const Binding& binding);

/// IBV_WR_LOCAL_INV on `qp`, one of this process. The caller is in no Activity.
WindowChange invalidate_here(Process& process, QpRecord& qp, std::uint32_t key);

/// Invalidates a type 2 that was bound on `qpn`, a QP of `party` whose responder lock is held: all
/// accesses through it hold that lock too. False: the key names none.
bool invalidate_window(Process& process, const Party& party, std::uint32_t qpn, std::uint32_t key);

/// The MR behind the window that `access` names, and the address in it; null when the access is not
/// allowed. The caller is in an Activity.
const MrRecord* behind_window(Process& process, const Party& party, const Access& access,
                              std::uint64_t& address);

/// The MR that `party`'s window of that key is bound to, or null.
MrRecord* mr_of_window(Process& process, const Party& party, std::uint32_t key);

}  // namespace hbmwire::emulation::nic
