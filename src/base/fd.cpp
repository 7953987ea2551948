// SPDX-License-Identifier: MIT
#include "hbmwire/fd.hpp"

#include <unistd.h>

namespace hbmwire {

// Not retried on EINTR: Linux has already released the descriptor then (close(2)).
void FdTraits::destroy(type fd) noexcept { ::close(fd); }

}  // namespace hbmwire
