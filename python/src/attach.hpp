// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <optional>

#include "hbmwire/attach.hpp"

#include "memory.hpp"

namespace hbmwire::python {

/// hbmwire.Publication.
struct PublicationObject {
  std::optional<AttachPublication> publication;
  SharedRegion hold;

  /// Raises InvalidArgument if it is closed.
  [[nodiscard]] const AttachAddress& address() const;
};

}  // namespace hbmwire::python
