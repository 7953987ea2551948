// SPDX-License-Identifier: MIT
#include "base/node_id.hpp"

#include <unistd.h>

#include <array>
#include <charconv>
#include <cstddef>

#include "base/sysfs.hpp"

namespace hbmwire {

NodeId node_id_of(std::string_view text) noexcept {
  NodeId id{};
  for (std::uint8_t& byte : id) {
    if (text.starts_with('-')) text.remove_prefix(1);
    constexpr std::size_t kDigits = 2;
    if (text.size() < kDigits) return kUnknownNode;
    const char* const end = text.data() + kDigits;
    const auto [read_to, failure] = std::from_chars(text.data(), end, byte, 16);
    if (failure != std::errc() || read_to != end) return kUnknownNode;
    text.remove_prefix(kDigits);
  }
  return text.empty() ? id : kUnknownNode;
}

const NodeId& node_id() noexcept {
  static const NodeId kId = node_id_of(read_line("/proc/sys/kernel/random/boot_id"));
  return kId;
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "?";
  return name.data();
}

}  // namespace hbmwire
