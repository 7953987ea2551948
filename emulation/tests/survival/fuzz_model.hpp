// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "emulation/tests/survival/fuzz_side.hpp"

/// The allowed effects of a request, derived only from the specification, without knowledge of the
/// NIC's code.
namespace hbmwire::test {

/// A side as the model sees it.
struct Modelled {
  Grants grants;
  std::vector<unsigned char> memory;
};

/// The changes that a request makes.
struct Effect {
  struct Write {
    bool here = false;  // in the requester's memory; false: in the responder's
    std::size_t offset = 0;
    std::vector<unsigned char> bytes;
  };

  std::vector<Write> writes;
  bool succeeds = true;
};

/// The effect of a request; nullopt if it is refused before it changes anything. `receive` is the
/// receive that the responder has posted. `area` is where the requester's memory lies, for inline
/// data.
std::optional<Effect> effect_of(const FuzzRequest& request, const FuzzRequest& receive,
                                const Modelled& requester, const Modelled& responder,
                                const Area& area);

}  // namespace hbmwire::test
