// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace hbmwire::bench {

/// What one stream of `iperf3` (Debian's package) carries over the loopback device, one end on each
/// CPU, until the receiver has had `bytes`: bytes a nanosecond. Fails with an exception.
double iperf_bytes_per_ns(std::uint64_t bytes);

}  // namespace hbmwire::bench
