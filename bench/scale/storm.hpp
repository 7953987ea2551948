// SPDX-License-Identifier: MIT
#pragma once

namespace hbmwire::bench {

/// Milliseconds until all clients are connected to one listener. They connect at the same moment,
/// from several processes, with one worker for each client. All endpoints have the default options.
/// Fails with an exception if one of them fails.
double measure_storm_ms(unsigned processes, unsigned clients_of_each);

}  // namespace hbmwire::bench
