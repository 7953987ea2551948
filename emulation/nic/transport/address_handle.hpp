// SPDX-License-Identifier: MIT
#pragma once

#include <infiniband/verbs.h>

#include "emulation/nic/transport/request.hpp"

namespace hbmwire::emulation::nic {

/// The object behind an ibv_ah. It may be destroyed as soon as post_send has returned, because
/// requests carry a copy of its address.
struct AddressHandle {
  ibv_ah handle;
  AddressVector address;
};

inline const AddressVector& address_of(const ibv_ah& handle) {
  return reinterpret_cast<const AddressHandle&>(handle).address;
}

}  // namespace hbmwire::emulation::nic
