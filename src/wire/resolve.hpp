// SPDX-License-Identifier: MIT
#pragma once

#include <netdb.h>

#include <cstdint>
#include <memory>
#include <string>

#include "hbmwire/deadline.hpp"
#include "hbmwire/error.hpp"

namespace hbmwire::wire {

struct AddressListDeleter {
  void operator()(addrinfo* list) const noexcept { ::freeaddrinfo(list); }
};

using AddressList = std::unique_ptr<addrinfo, AddressListDeleter>;

/// getaddrinfo(3) with a deadline: a name server that does not answer must not hold the caller for
/// half a minute. `passive`: addresses to listen on.
Result<AddressList> resolve(const std::string& host, std::uint16_t port, bool passive,
                            const Wait& wait);

}  // namespace hbmwire::wire
