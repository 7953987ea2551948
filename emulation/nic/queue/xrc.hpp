// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "emulation/nic/state/process.hpp"

/// XRC domains, and the handles that processes have of XRC_RECV queue pairs.
namespace hbmwire::emulation::nic {

struct XrcdRequest {
  std::uint32_t nic = 0;
  std::uint64_t device = 0, inode = 0;  // of the file; 0: a domain without a file
  bool may_create = false;
  bool must_create = false;
};

struct XrcdClaim {
  std::uint32_t index = 0;
  int error = 0;
};

/// Opens a handle of the file's domain on that NIC, and makes the domain if there is none. As in
/// Linux, fails with EAGAIN if there is none but it must exist, and with EINVAL if there is one but
/// it must be new.
XrcdClaim claim_xrcd(Process& process, const XrcdRequest& request);
void release_xrcd(Process& process, std::uint32_t index);

/// The result of opening an XRC_RECV QP: a handle of it, and its index. EINVAL: the domain has no
/// QP of that number.
struct XrcQpClaim {
  std::uint32_t handle = 0;
  std::uint32_t qp = 0;
  int error = 0;
};

XrcQpClaim open_xrc_qp(Process& process, std::uint64_t xrcd, std::uint32_t qpn,
                       const EventSource& events);

/// `others_have_it`: the handle is closed. `was_last`: the QP is stopped as well. `no`: a stopped
/// process holds a lock of the QP; nothing has changed.
enum class Closed : std::uint8_t { no, others_have_it, was_last };

[[nodiscard]] Closed close_xrc_qp(Process& process, std::uint32_t handle, std::uint32_t qp);

void release_xrc_handle(Process& process, std::uint32_t handle);

}  // namespace hbmwire::emulation::nic
