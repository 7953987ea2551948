// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace hbmwire::bench {

/// The speed of one stream of `iperf3` (Debian's package) over the loopback device, with one end on
/// each CPU, until the receiver has `bytes`. In bytes for each nanosecond. Fails with an exception.
double iperf_bytes_per_ns(std::uint64_t bytes);

}  // namespace hbmwire::bench
