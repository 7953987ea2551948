// SPDX-License-Identifier: MIT
#include "hbmwire/counters.hpp"

namespace hbmwire {

std::string_view to_string(TransferKind kind) noexcept {
  switch (kind) {
    case TransferKind::put:
      return "put";
    case TransferKind::get:
      return "get";
    case TransferKind::send:
      return "send";
    case TransferKind::receive:
      return "receive";
    case TransferKind::atomic:
      return "atomic";
    case TransferKind::flush:
      return "flush";
    case TransferKind::immediate:
      return "immediate";
    case TransferKind::task:
      return "task";
  }
  return "?";
}

std::uint64_t Counters::bytes(TransferKind kind) const noexcept {
  std::uint64_t all = 0;
  for (const TransferCounters& each : transfers) {
    if (each.labels.kind == kind) all += each.bytes;
  }
  return all;
}

}  // namespace hbmwire
