// SPDX-License-Identifier: MIT
#pragma once

#include "mover/mover.hpp"

// Operations that the endpoint's NIC carries, but cannot begin at once.
namespace hbmwire::detail {

/// Requests for which there was no room, and long ones, which go in pieces.
class PieceMover final : public Mover {
 public:
  bool advance(TransferState& transfer) noexcept override;
  bool finish(TransferState& transfer) noexcept override;
};

/// Prepared lists, in chunks.
class ListMover final : public Mover {
 public:
  bool advance(TransferState& transfer) noexcept override;
  bool flush_next(TransferState& transfer) noexcept override;
};

/// Messages that wait for room or a credit.
class SendMover final : public Mover {
 public:
  bool advance(TransferState& transfer) noexcept override;
  bool finish(TransferState& transfer) noexcept override;
};

}  // namespace hbmwire::detail
