// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "emulation/nic/state/process.hpp"

namespace hbmwire::emulation::nic {

struct QpRequest {
  std::uint32_t type = 0;
  std::uint64_t pd = 0;
  std::uint32_t send_cq = 0;
  std::uint32_t recv_cq = 0;
  std::uint32_t receive_depth = 0;
  std::uint32_t receive_sge = 0;
  EventSource events{};
};

/// Index of a new QP in RESET, or 0 with errno.
std::uint32_t claim_qp(Process& process, const QpRequest& request);

/// Makes the number invalid: when it returns nobody is at work in the QP, and nobody will be.
void stop_qp(Process& process, std::uint32_t index);

/// Gives the stopped QP's record and ring back.
void release_qp(Process& process, std::uint32_t index);

}  // namespace hbmwire::emulation::nic
