// SPDX-License-Identifier: MIT
#pragma once

#include "base/log.hpp"

namespace hbmwire {

/// Runs a destroy function that returns 0 or more for success. On failure it is called once more,
/// because the driver may have been busy with the object (the kernel's own clean-up of a process
/// retries, too: ib_uverbs' uverbs_destroy_ufile_hw). A second failure is logged, since a
/// destructor has no caller to return it to, and the object stays until the process ends. Not for
/// functions that release their handle even when they fail, such as close(2).
template <class Destroy, class ErrnoOf>
void destroy_or_log(const char* call, Destroy destroy, ErrnoOf errno_of) noexcept {
  if (destroy() >= 0) return;
  if (const int result = destroy(); result < 0)
    log_warning(call, "failed twice, the object leaks", errno_of(result));
}

}  // namespace hbmwire
