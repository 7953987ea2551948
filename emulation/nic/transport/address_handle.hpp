// SPDX-License-Identifier: MIT
#pragma once

#include <infiniband/verbs.h>

#include "emulation/nic/transport/request.hpp"

namespace hbmwire::emulation::nic {

/// Behind an ibv_ah. It may be destroyed as soon as post_send returned: requests carry a copy of
/// what it holds.
struct AddressHandle {
  ibv_ah handle;
  AddressVector address;
};

inline const AddressVector& address_of(const ibv_ah& handle) {
  return reinterpret_cast<const AddressHandle&>(handle).address;
}

}  // namespace hbmwire::emulation::nic
