// SPDX-License-Identifier: MIT
#include "verbs/port.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/descriptors.hpp"
#include "verbs/calls.hpp"

namespace hbmwire::verbs {

namespace {

bool is_zero(const ibv_gid& gid) noexcept {
  return std::all_of(std::begin(gid.raw), std::end(gid.raw),
                     [](std::uint8_t byte) { return byte == 0; });
}

bool is_link_local(const ibv_gid& gid) noexcept {
  return gid.raw[0] == 0xfe && (gid.raw[1] & 0xc0) == 0x80;
}

bool is_ipv4_mapped(const ibv_gid& gid) noexcept {
  static constexpr std::array<std::uint8_t, 12> kPrefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::equal(kPrefix.begin(), kPrefix.end(), std::begin(gid.raw));
}

/// The order of choose_gid(): the type counts more than the address.
int score(const GidEntry& entry) noexcept {
  int points = entry.type == GidEntry::Type::roce_v2 ? 100 : 0;
  if (is_ipv4_mapped(entry.gid)) {
    points += 20;
  } else if (!is_link_local(entry.gid)) {
    points += 10;
  }
  return points;
}

}  // namespace

std::string_view type_name(GidEntry::Type type) noexcept {
  switch (type) {
    case GidEntry::Type::infiniband:
      return "IB";
    case GidEntry::Type::roce_v1:
      return "RoCE v1";
    case GidEntry::Type::roce_v2:
      return "RoCE v2";
  }
  return "?";
}

int choose_gid(const std::vector<GidEntry>& table, bool ethernet) noexcept {
  if (table.empty()) return -1;
  if (!ethernet) return 0;
  // max_element keeps the first of equals, which has the lower index.
  const auto best =
      std::max_element(table.begin(), table.end(),
                       [](const GidEntry& a, const GidEntry& b) { return score(a) < score(b); });
  return static_cast<int>(best - table.begin());
}

std::vector<GidEntry> read_gid_table(ibv_context* context, std::uint8_t port, int length) {
  std::vector<GidEntry> table;
  // 256: GidEntry::index has 8 bits.
  for (int index = 0; index < length && index < 256; ++index) {
    ibv_gid_entry raw{};
    // ENODATA marks an empty entry; a table may have holes.
    if (ibv_query_gid_ex(context, port, static_cast<std::uint32_t>(index), &raw, 0) != 0 ||
        is_zero(raw.gid))
      continue;
    GidEntry entry;
    entry.index = static_cast<std::uint8_t>(index);
    entry.gid = raw.gid;
    entry.type = raw.gid_type == IBV_GID_TYPE_ROCE_V2   ? GidEntry::Type::roce_v2
                 : raw.gid_type == IBV_GID_TYPE_ROCE_V1 ? GidEntry::Type::roce_v1
                                                        : GidEntry::Type::infiniband;
    entry.interface = raw.ndev_ifindex;
    table.push_back(entry);
  }
  return table;
}

std::uint32_t mtu_bytes(ibv_mtu mtu) noexcept {
  // enum ibv_mtu counts from 1 (256 bytes) to 5 (4096 bytes).
  return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128U << static_cast<unsigned>(mtu) : 0;
}

ibv_mtu mtu_from_bytes(std::uint32_t bytes) noexcept {
  if (bytes >= 4096) return IBV_MTU_4096;
  if (bytes >= 2048) return IBV_MTU_2048;
  if (bytes >= 1024) return IBV_MTU_1024;
  return bytes >= 512 ? IBV_MTU_512 : IBV_MTU_256;
}

std::string gid_text(const ibv_gid& gid) {
  char text[INET6_ADDRSTRLEN] = {};
  inet_ntop(AF_INET6, gid.raw, text, sizeof text);
  return text;
}

NicInfo port_info(ibv_context* context, std::uint8_t port, const ibv_port_attr& attributes) {
  NicInfo info;
  info.name = ibv_get_device_name(context->device);
  info.port = port;
  info.ethernet = attributes.link_layer == IBV_LINK_LAYER_ETHERNET;
  info.mtu_bytes = mtu_bytes(attributes.active_mtu);
  info.max_message_bytes = attributes.max_msg_sz;
  return info;
}

std::string with_count(std::string_view device, std::string_view kind, unsigned index,
                       std::size_t count) {
  std::string text(device);
  text.append(" (").append(kind).append(" index ").append(std::to_string(index));
  return text.append(", ").append(std::to_string(count)).append(" ").append(kind).append("s)");
}

Result<NicInfo> query_port(ibv_context* context, std::uint8_t port,
                           std::optional<std::uint8_t> gid_index) {
  const char* name = ibv_get_device_name(context->device);
  ibv_port_attr attributes{};
  HBMWIRE_TRY(from_errno_result(ibv_query_port(context, port, &attributes), Stage::open,
                                "ibv_query_port", name));
  if (attributes.state != IBV_PORT_ACTIVE) {
    return tl::make_unexpected(make_error(Errc::not_found, Stage::open, "the port is not active",
                                          name, Hint::no_active_port));
  }
  NicInfo info = port_info(context, port, attributes);
  // An entry that cannot be read looks like a hole in the table, and another GID would be chosen.
  HBMWIRE_TRY(check_descriptors(Stage::open, name));
  const auto table = read_gid_table(context, port, attributes.gid_tbl_len);
  const int chosen = choose_gid(table, info.ethernet);
  if (chosen < 0) {
    return tl::make_unexpected(
        make_error(Errc::not_found, Stage::open, "the port has no GID", name, Hint::no_usable_gid));
  }
  auto entry = table.begin() + chosen;
  if (gid_index) entry = std::ranges::find(table, *gid_index, &GidEntry::index);
  if (entry == table.end()) {
    return tl::make_unexpected(
        make_error(Errc::not_found, Stage::open, "its port has no GID at this index",
                   with_count(name, "GID", *gid_index, table.size()), Hint::link_options));
  }
  info.gid_index = entry->index;
  info.gid = gid_text(entry->gid);
  info.gid_type = type_name(entry->type);
  return info;
}

bool is_active(ibv_context* context, std::uint8_t port) noexcept {
  ibv_port_attr attributes{};
  return ibv_query_port(context, port, &attributes) == 0 && attributes.state == IBV_PORT_ACTIVE;
}

}  // namespace hbmwire::verbs
