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

/// One entry of a port's GID table, with the fields that choose_gid() needs.
struct GidEntry {
  std::uint8_t index = 0;
  ibv_gid gid{};
  enum class Type : std::uint8_t { infiniband, roce_v1, roce_v2 } type = Type::infiniband;
  std::uint32_t interface = 0;  ///< index of the network interface, if_indextoname(3); 0: none
};

/// "IB", "RoCE v1", "RoCE v2".
[[nodiscard]] std::string_view type_name(GidEntry::Type type) noexcept;

/// The index in `table` of the GID to use; -1 if the table is empty. On Ethernet, RoCE v2 comes
/// before v1, because it is routable and the default today. Within a type, an IPv4-mapped address
/// comes before other routable ones, and these before link-local ones (fe80::/10 needs a scope that
/// the peer cannot know). Among equals, the lower index comes first. On InfiniBand it is the first
/// GID.
[[nodiscard]] int choose_gid(const std::vector<GidEntry>& table, bool ethernet) noexcept;

/// The port's whole GID table without empty entries (ibv_query_gid_ex(3)).
[[nodiscard]] std::vector<GidEntry> read_gid_table(ibv_context* context, std::uint8_t port,
                                                   int length);

/// The results of ibv_query_port(3), without GIDs.
[[nodiscard]] NicInfo port_info(ibv_context* context, std::uint8_t port,
                                const ibv_port_attr& attributes);

/// Describes one port, with the GID of that index, or the one that choose_gid() takes if there is
/// no index. Errors: Stage::open if the port cannot be queried, is not active, or has no such GID.
[[nodiscard]] Result<NicInfo> query_port(ibv_context* context, std::uint8_t port,
                                         std::optional<std::uint8_t> gid_index);

/// "mlx5_0 (GID index 40, 4 GIDs)": names the table in the error that it lacks an entry.
[[nodiscard]] std::string with_count(std::string_view device, std::string_view kind, unsigned index,
                                     std::size_t count);

/// Whether the port's link is up now (ibv_query_port(3)); false if it cannot be queried.
[[nodiscard]] bool is_active(ibv_context* context, std::uint8_t port) noexcept;

/// The bytes of an enum ibv_mtu; 0 for an invalid value.
[[nodiscard]] std::uint32_t mtu_bytes(ibv_mtu mtu) noexcept;

/// The largest ibv_mtu of at most `bytes` bytes; 256 bytes if there is none.
[[nodiscard]] ibv_mtu mtu_from_bytes(std::uint32_t bytes) noexcept;

/// A GID as text, by inet_ntop.
[[nodiscard]] std::string gid_text(const ibv_gid& gid);

}  // namespace hbmwire::verbs
