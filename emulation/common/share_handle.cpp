// SPDX-License-Identifier: MIT
#include "emulation/common/share_handle.hpp"

#include <algorithm>
#include <cstring>

namespace hbmwire::emulation {

void write_handle(const ShareHandle& handle, std::span<std::byte> to) {
  std::ranges::fill(to, std::byte{0});
  std::memcpy(to.data(), &handle, sizeof handle);
}

std::optional<ShareHandle> read_handle(std::span<const std::byte> from, std::uint64_t family) {
  ShareHandle handle;
  std::memcpy(&handle, from.data(), sizeof handle);
  const auto rest = from.subspan(sizeof handle);
  const bool zeros = std::ranges::all_of(rest, [](std::byte b) { return b == std::byte{0}; });
  if (handle.family != family || handle.zero != 0 || !zeros) return std::nullopt;
  return handle;
}

}  // namespace hbmwire::emulation
