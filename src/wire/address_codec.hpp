// SPDX-License-Identifier: MIT
#pragma once

#include "hbmwire/low_level/connection.hpp"
#include "hbmwire/nic.hpp"

#include "wire/codec.hpp"

namespace hbmwire::wire {

/// A queue pair's address. An impossible value makes the reader fail.
void put(Writer& out, const ConnectionAddress& address);
ConnectionAddress get_connection_address(Reader& in);

}  // namespace hbmwire::wire
