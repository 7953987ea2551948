// SPDX-License-Identifier: MIT
#include "base/asymmetric_fence.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace hbmwire::asymmetric {

namespace {

long membarrier(int command) noexcept { return ::syscall(SYS_membarrier, command, 0, 0); }

}  // namespace

// The registration holds for the whole process and its children by fork(2), because the kernel
// keeps it with the address space.
const bool detail::kReachesOthers = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;

void heavy_fence() noexcept {
  detail::full_fence();
  if (detail::kReachesOthers) membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
  detail::full_fence();
}

}  // namespace hbmwire::asymmetric
