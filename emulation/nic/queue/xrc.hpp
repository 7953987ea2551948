// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "emulation/nic/state/process.hpp"

/// XRC domains, and the handles that processes have of XRC_RECV queue pairs.
namespace hbmwire::emulation::nic {

struct XrcdRequest {
  std::uint32_t nic = 0;
  std::uint64_t device = 0, inode = 0;  // of the file, 0: a domain of its own
  bool may_create = false;
  bool must_create = false;
};

struct XrcdClaim {
  std::uint32_t index = 0;
  int error = 0;
};

/// A handle of the file's domain on that NIC, which is made when there is none. EAGAIN: there is
/// none, and it must not be made; EINVAL: there is one, and it must be made (both as Linux says).
XrcdClaim claim_xrcd(Process& process, const XrcdRequest& request);
void release_xrcd(Process& process, std::uint32_t index);

/// Opens the XRC_RECV QP of that number in that domain: its handle and the index of the QP.
/// EINVAL: there is none.
struct XrcQpClaim {
  std::uint32_t handle = 0;
  std::uint32_t qp = 0;
  int error = 0;
};

XrcQpClaim open_xrc_qp(Process& process, std::uint64_t xrcd, std::uint32_t qpn,
                       const EventSource& events);

/// The handle gets no more events. `was_last`: and the QP is stopped. `no`: a process was stopped
/// at work in it, and nothing has changed.
enum class Closed : std::uint8_t { no, others_have_it, was_last };

[[nodiscard]] Closed close_xrc_qp(Process& process, std::uint32_t handle, std::uint32_t qp);

void release_xrc_handle(Process& process, std::uint32_t handle);

}  // namespace hbmwire::emulation::nic
