// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace hbmwire::test {

/// A name that getaddrinfo(3) finds in programs with name_service.cpp.
inline constexpr const char* kSeveralAddresses = "several.test";

/// Sets the results for that name, in this order. They are numeric addresses.
void set_addresses(std::vector<std::string> addresses);

/// Returns the largest number of threads that looked up that name at the same time since the last
/// call. From now on each look-up takes `take`.
unsigned most_look_ups(std::chrono::milliseconds take = std::chrono::milliseconds(0));

/// Whether the last thread that looked up that name did not block `signal`.
bool look_up_takes(int signal);

}  // namespace hbmwire::test
