// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace hbmwire::test {

/// A name that getaddrinfo(3) knows in programs with name_service.cpp.
inline constexpr const char* kSeveralAddresses = "several.test";

/// The numeric addresses that it gives for that name, in this order.
void set_addresses(std::vector<std::string> addresses);

/// How many threads asked for that name at the same moment, at most, since the last call of this;
/// from now on each takes so long.
unsigned most_look_ups(std::chrono::milliseconds take = std::chrono::milliseconds(0));

/// Whether the thread that last asked for that name takes `signal`.
bool look_up_takes(int signal);

}  // namespace hbmwire::test
