// SPDX-License-Identifier: MIT
#pragma once

#include <string>

namespace hbmwire::bench {

/// One run of `ucx_perftest -t TEST -s 8` of Debian's ucx-utils over its posix transport, one end
/// on each CPU. The median that it prints, in nanoseconds: of half a round trip, or of a put's
/// overhead. It prints three digits of a microsecond.
double ucx_perftest(const std::string& test, unsigned iterations);

}  // namespace hbmwire::bench
