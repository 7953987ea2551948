// SPDX-License-Identifier: MIT
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hbmwire/error.hpp"
#include "hbmwire/nic.hpp"

namespace hbmwire::verbs {

/// One entry of a port's GID table, as the choice needs it.
struct GidEntry {
  std::uint8_t index = 0;
  ibv_gid gid{};
  enum class Type : std::uint8_t { infiniband, roce_v1, roce_v2 } type = Type::infiniband;
  std::uint32_t interface = 0;  ///< index of the network interface, if_indextoname(3); 0: none
};

/// "IB", "RoCE v1", "RoCE v2".
[[nodiscard]] std::string_view type_name(GidEntry::Type type) noexcept;

/// Which GID to use: on Ethernet RoCE v2 before v1 (routable, and what switches and peers expect
/// today), and within a type an IPv4-mapped address before another routable one before link-local
/// (fe80::/10, needs a scope the peer can't know); the lower index among equals. On InfiniBand the
/// first one. -1 when there is none.
[[nodiscard]] int choose_gid(const std::vector<GidEntry>& table, bool ethernet) noexcept;

/// The port's whole GID table, empty entries left out (ibv_query_gid_ex(3)).
[[nodiscard]] std::vector<GidEntry> read_gid_table(ibv_context* context, std::uint8_t port,
                                                   int length);

/// What ibv_query_port(3) said of a port; nothing of GIDs.
[[nodiscard]] NicInfo port_info(ibv_context* context, std::uint8_t port,
                                const ibv_port_attr& attributes);

/// Describes one port, by the GID of that index, or if none is named the one that choose_gid()
/// takes. Errors: Stage::open when it can't be asked, is not active, or has no such GID.
[[nodiscard]] Result<NicInfo> query_port(ibv_context* context, std::uint8_t port,
                                         std::optional<std::uint8_t> gid_index);

/// "mlx5_0 (GID index 40, 4 GIDs)": for the error of a table that lacks an entry.
[[nodiscard]] std::string with_count(std::string_view device, std::string_view kind, unsigned index,
                                     std::size_t count);

/// Whether the port's link is up now; one that can't be asked has none (ibv_query_port(3)).
[[nodiscard]] bool is_active(ibv_context* context, std::uint8_t port) noexcept;

/// enum ibv_mtu <-> bytes; 0 for a value that is none.
[[nodiscard]] std::uint32_t mtu_bytes(ibv_mtu mtu) noexcept;
[[nodiscard]] ibv_mtu mtu_from_bytes(std::uint32_t bytes) noexcept;

/// inet_ntop's text of a GID.
[[nodiscard]] std::string gid_text(const ibv_gid& gid);

}  // namespace hbmwire::verbs
