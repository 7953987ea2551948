// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <optional>

#include "hbmwire/attach.hpp"

#include "memory.hpp"

namespace hbmwire::python {

/// hbmwire.Publication. The library's publication keeps the memory.
struct PublicationObject {
  std::optional<AttachPublication> publication;

  /// Raises InvalidArgument if it is closed.
  [[nodiscard]] const AttachAddress& address() const;
};

}  // namespace hbmwire::python
