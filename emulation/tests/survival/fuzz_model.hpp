// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "emulation/tests/survival/fuzz_side.hpp"

/// What a request may do, from the specification alone: nothing here knows how the NIC works.
namespace hbmwire::test {

/// A side as the model sees it.
struct Modelled {
  Grants grants;
  std::vector<unsigned char> memory;
};

/// The changes that a request makes.
struct Effect {
  struct Write {
    bool here = false;  // in the requester's memory; else in the responder's
    std::size_t offset = 0;
    std::vector<unsigned char> bytes;
  };

  std::vector<Write> writes;
  bool succeeds = true;
};

/// Nothing for a request that is refused before it changes anything. `receive`: what the responder
/// has posted. `area`: where the requester's memory lies, for inline data.
std::optional<Effect> effect_of(const FuzzRequest& request, const FuzzRequest& receive,
                                const Modelled& requester, const Modelled& responder,
                                const Area& area);

}  // namespace hbmwire::test
