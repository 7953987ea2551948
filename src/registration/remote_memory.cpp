// SPDX-License-Identifier: MIT
#include "hbmwire/low_level/connection.hpp"

namespace hbmwire {

Result<RemoteMemory> RemoteMemory::slice(std::uint64_t offset_bytes,
                                         std::uint64_t length) const noexcept {
  if (offset_bytes > length_bytes || length > length_bytes - offset_bytes) {
    return tl::make_unexpected(
        make_error(Errc::invalid_argument, Stage::post, "the slice leaves the peer's memory"));
  }
  return RemoteMemory{address + offset_bytes, length, remote_key};
}

}  // namespace hbmwire
