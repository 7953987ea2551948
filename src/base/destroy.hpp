// SPDX-License-Identifier: MIT
#pragma once

#include "base/log.hpp"

namespace hbmwire {

/// Runs a destroy function that says 0 (or more) for success. A driver that refuses is asked a
/// second time: it may have been busy with the object (the kernel's own clean-up of a process asks
/// again, too: ib_uverbs' uverbs_destroy_ufile_hw). A second failure is logged, since there is
/// nobody left to return it to, and the object is left to the end of the process. Not for functions
/// that give their handle up even when they fail, as close(2).
template <class Destroy, class ErrnoOf>
void destroy_or_log(const char* call, Destroy destroy, ErrnoOf errno_of) noexcept {
  if (destroy() >= 0) return;
  if (const int result = destroy(); result < 0)
    log_warning(call, "failed twice, the object leaks", errno_of(result));
}

}  // namespace hbmwire
