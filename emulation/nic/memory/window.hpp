// SPDX-License-Identifier: MIT
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "emulation/nic/memory/region.hpp"
#include "emulation/nic/state/process.hpp"

/// Memory windows: keys to a part of an MR, for remote access only. A type 1 window serves every QP
/// of its protection domain. Type 2 windows are of type 2B: they serve only the QP that they were
/// bound on.
namespace hbmwire::emulation::nic {

/// The contents of a bind request. Serial numbers show when the request is executed whether the
/// window or the MR was destroyed or replaced since it was posted.
struct Binding {
  std::uint32_t window = 0;  // index; 0: not a request that can be posted
  std::uint64_t serial = 0;  // of the window
  std::uint32_t mr = 0;
  std::uint32_t mr_key = 0;
  std::uint32_t rkey = 0;  // only the low 8 bits matter
  std::uint32_t access = 0;
  std::uint64_t address = 0;
  std::uint64_t length = 0;
};

/// Makes the request to bind `mw`, which must be of `type`: ibv_bind_mw takes type 1, ibv_post_send
/// takes type 2.
Binding binding_of(const Process& process, const ibv_mw* mw, ibv_mw_type type, std::uint32_t rkey,
                   const ibv_mw_bind_info& info);

/// Makes a window that is not bound. Returns its index, or 0 with errno.
std::uint32_t claim_window(Process& process, std::uint64_t pd, ibv_mw_type type);

/// Unbinds a window and frees its record. After it returns, no byte changes through the window.
/// Returns 0 or an errno. EBUSY, with the window unchanged: a process was stopped while it executed
/// a request that may use the window.
int release_window(Process& process, std::uint32_t index);

/// Whether a window is bound to an MR of this process. Process::windows is held.
bool is_bound(Process& process, std::uint32_t mr);

/// `refused`: the change is not allowed. `held`: a stopped process is in the way. In both cases
/// nothing has changed.
enum class WindowChange : std::uint8_t { done, refused, held };

/// Binds a window by a request on `qp`, a QP of this process. The caller is not inside an Activity.
WindowChange bind_window(Process& process, QpRecord& qp, const Binding& binding);

/// Executes IBV_WR_LOCAL_INV on `qp`, a QP of this process. The caller is not inside an Activity.
WindowChange invalidate_here(Process& process, QpRecord& qp, std::uint32_t key);

/// Invalidates a type 2 window that was bound on `qpn`, a QP of `party`. That QP's responder lock
/// is held, as it is for all accesses through the window. Returns false if the key does not name
/// such a window.
bool invalidate_window(Process& process, const Party& party, std::uint32_t qpn, std::uint32_t key);

/// Finds the MR behind the window that `access` names, and the address in it. Returns null if the
/// access is not allowed. The caller is inside an Activity.
const MrRecord* behind_window(Process& process, const Party& party, const Access& access,
                              std::uint64_t& address);

/// The MR that the window of `party` with that key is bound to, or null.
MrRecord* mr_of_window(Process& process, const Party& party, std::uint32_t key);

}  // namespace hbmwire::emulation::nic
