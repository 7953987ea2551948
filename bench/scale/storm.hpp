// SPDX-License-Identifier: MIT
#pragma once

namespace hbmwire::bench {

/// Milliseconds until all clients are connected to one listener, to which they connect at the same
/// moment, from some processes with a worker for each client. All endpoints have the default
/// options. Fails by an exception where one of them does.
double measure_storm_ms(unsigned processes, unsigned clients_of_each);

}  // namespace hbmwire::bench
