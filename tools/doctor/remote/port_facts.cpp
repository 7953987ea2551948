// SPDX-License-Identifier: MIT
#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "tools/doctor/checks/reading.hpp"
#include "tools/doctor/remote/facts.hpp"

namespace hbmwire::tools::doctor {
namespace {

using RawGid = std::array<std::uint8_t, 16>;

constexpr const char* kNotSet = "not set";

/// Returns "mlx5_0" or "mlx5_0:2".
std::string short_name(const Port& port) {
  return port.number == "1" ? port.nic->name : port.nic->name + ":" + port.number;
}

/// One reading for each port. `read` returns a value and its source; an empty value means no
/// reading.
template <class Read>
Readings of_each_port(const End& end, Read read) {
  Readings readings;
  for (const Port& port : end.ports) {
    auto [value, source] = read(port);
    if (!value.empty())
      readings.push_back({.group = {},
                          .subject = short_name(port),
                          .value = std::move(value),
                          .source = std::move(source)});
  }
  return readings;
}

using ValueAndSource = std::pair<std::string, std::string>;

Readings read_link_layers(End& end) {
  return of_each_port(end, [&](const Port& port) -> ValueAndSource {
    const std::string source = port.folder + "/link_layer";
    return {read_line(end.machine, source).value, source};
  });
}

Readings read_path_mtus(End& end) {
  return of_each_port(end, [](const Port& port) -> ValueAndSource {
    const auto bytes = number_at(told_of(port), "mtu_bytes");
    return {bytes ? fmt::format("{}", *bytes) : "", "ibv_query_port(3)"};
  });
}

Readings read_interface_mtus(End& end) {
  return of_each_port(end, [&](const Port& port) -> ValueAndSource {
    const std::string interface = port.ethernet ? interface_of(end.machine, port).name : "";
    if (interface.empty()) return {};
    const std::string source = "/sys/class/net/" + interface + "/mtu";
    return {read_line(end.machine, source).value, source};
  });
}

Readings read_rates(End& end) {
  return of_each_port(end, [&](const Port& port) -> ValueAndSource {
    // "200 Gb/sec (4X HDR)": only the rate counts, not the lanes.
    const std::string source = port.folder + "/rate";
    const std::string rate = read_line(end.machine, source).value;
    return {rate.substr(0, rate.find(" (")), source};
  });
}

bool parse_gid(const std::string& text, RawGid& gid) {
  return ::inet_pton(AF_INET6, text.c_str(), gid.data()) == 1;
}

bool is_local_gid(const RawGid& gid) { return gid[0] == 0xfe && (gid[1] & 0xc0U) == 0x80; }

bool is_ipv4_gid(const RawGid& gid) {
  constexpr std::array<std::uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::equal(kMapped.begin(), kMapped.end(), gid.begin());
}

/// Returns "RoCE v2 (IPv4)". For RoCE v1 the family does not matter, because its address is never
/// routed.
std::string kind_of(const Gid& gid) {
  RawGid raw{};
  if (gid.type != "RoCE v2" || !parse_gid(gid.address, raw)) return "RoCE v1";
  return is_ipv4_gid(raw)    ? "RoCE v2 (IPv4)"
         : is_local_gid(raw) ? "RoCE v2 (link-local)"
                             : "RoCE v2 (IPv6)";
}

/// The order in which the library chooses (src/verbs/port.cpp): RoCE v2 first, then IPv4, then
/// addresses that are not link-local.
int rank_of(const Gid& gid) {
  RawGid raw{};
  const int of_type = gid.type == "RoCE v2" ? 100 : 0;
  if (!parse_gid(gid.address, raw)) return of_type;
  return of_type + (is_ipv4_gid(raw) ? 20 : is_local_gid(raw) ? 0 : 10);
}

/// The entries with a known type, from sysfs or, if that cannot be read, from "info".
std::vector<Gid> typed_gids(Evidence& machine, const Port& port) {
  int error = 0;
  std::vector<Gid> gids = gids_of(machine, port, error);
  std::erase_if(gids, [](const Gid& gid) { return gid.type.empty(); });
  if (!gids.empty()) return gids;
  for (const Json& told : member(told_of(port), "gids")) {
    const auto index = number_at(told, "index");
    const std::string type = text_at(told, "type");
    if (index && !type.empty())
      gids.push_back({.index = fmt::format("{}", *index),
                      .address = text_at(told, "gid"),
                      .type = type,
                      .interface = {}});
  }
  return gids;
}

/// The GID that hbmwire uses: the one in "info", or the one that it would choose.
std::optional<Gid> used_gid(Evidence& machine, const Port& port) {
  const std::vector<Gid> gids = typed_gids(machine, port);
  if (!port.ethernet || gids.empty()) return std::nullopt;
  if (const auto index = number_at(told_of(port), "gid_index")) {
    const auto found = std::ranges::find(gids, fmt::format("{}", *index), &Gid::index);
    if (found != gids.end()) return *found;
  }
  return *std::ranges::max_element(gids, {}, rank_of);
}

Readings read_gid_kinds(End& end) {
  return of_each_port(end, [&](const Port& port) -> ValueAndSource {
    const auto gid = used_gid(end.machine, port);
    if (!gid) return {};
    return {kind_of(*gid), port.folder + "/gid_attrs/types/" + gid->index};
  });
}

Readings read_gid_indices(End& end) {
  return of_each_port(end, [&](const Port& port) -> ValueAndSource {
    const auto gid = used_gid(end.machine, port);
    return {gid ? gid->index : "", port.folder + "/gids"};
  });
}

/// The value of a file that only some drivers, or an administrator, create. Empty if this user may
/// not read it.
ValueAndSource optional_file(Evidence& machine, std::string path, const char* by_default) {
  const Answer answer = machine.file(path);
  if (answer.error != 0 && answer.error != ENOENT) return {};
  const std::string value = fmt::format("{}", fmt::join(lines_in(answer.value), ", "));
  return {value.empty() ? by_default : value, std::move(path)};
}

/// The driver of MLNX_OFED keeps the class of all packets here. Empty means that queue pairs have
/// their own.
Readings read_forced_classes(End& end) {
  return of_each_port(end, [&](const Port& port) {
    return optional_file(
        end.machine,
        fmt::format("/sys/class/infiniband/{}/tc/{}/traffic_class", port.nic->name, port.number),
        kNotSet);
  });
}

ValueAndSource rdma_cm_file(End& end, const Port& port, const char* file, const char* by_default) {
  if (!port.ethernet) return {};
  return optional_file(
      end.machine,
      fmt::format("/sys/kernel/config/rdma_cm/{}/ports/{}/{}", port.nic->name, port.number, file),
      by_default);
}

Readings read_rdma_cm_modes(End& end) {
  return of_each_port(end, [&](const Port& port) {
    return rdma_cm_file(end, port, "default_roce_mode", "RoCE v2");
  });
}

Readings read_rdma_cm_tos(End& end) {
  return of_each_port(
      end, [&](const Port& port) { return rdma_cm_file(end, port, "default_roce_tos", "0"); });
}

/// On Ethernet each port has only the key 0xffff.
Readings read_partitions(End& end) {
  const auto setting = setting_of(end, "HBMWIRE_LINK_PKEY_INDEX");
  const auto index = leading_number(setting.value_or("")).value_or(0);
  return of_each_port(end, [&](const Port& port) -> ValueAndSource {
    if (port.ethernet) return {};
    constexpr std::uint64_t kFullMember = 0x8000;  // not part of the partition's number
    const std::string source = fmt::format("{}/pkeys/{}", port.folder, index);
    const auto key = leading_number(read_line(end.machine, source).value, 16);
    return {key ? fmt::format("{:#06x}", *key & (kFullMember - 1)) : "", source};
  });
}

using Matter = Difference::Matter;

constexpr std::array kPortFacts{
    Fact{"link layer", Matter::fault,
         "Ethernet and InfiniBand don't reach each other: choose NICs of one", read_link_layers},
    Fact{"kind of GID", Matter::fault,
         "the NICs don't reach each other: give interfaces addresses of one kind at both ends, and "
         "leave HBMWIRE_GID_INDEX out",
         read_gid_kinds},
    Fact{
        "path MTU", Matter::fault,
        "the smaller one counts for both: raise it there, and on switches in between (Ethernet: ip "
        "link set dev INTERFACE mtu 9000)",
        read_path_mtus},
    Fact{"MTU of interfaces", Matter::note, "set the same on both, and on switches in between",
         read_interface_mtus},
    Fact{"rate of ports", Matter::fault,
         "the slower port is the limit, and the faster one's packets may be lost before it: check "
         "cables and switch ports, and flow control (PFC, ECN)",
         read_rates},
    Fact{"partition", Matter::fault,
         "ports of different partitions don't reach each other: choose HBMWIRE_LINK_PKEY_INDEX, "
         "or change the subnet manager's partitions",
         read_partitions},
    Fact{"forced traffic class", Matter::fault,
         "packets of the two ends travel in different queues of NICs and switches, of which one "
         "may lose them: write the same to that file on both",
         read_forced_classes},
    Fact{"RoCE mode of rdma_cm", Matter::fault,
         "connections by rdma_cm fail: echo 'RoCE v2' to that file on both", read_rdma_cm_modes},
    Fact{"type of service of rdma_cm", Matter::fault,
         "with connections by rdma_cm, packets of the two ends travel in different queues of NICs "
         "and switches: write the same to that file on both (cma_roce_tos)",
         read_rdma_cm_tos},
    Fact{"GID index", Matter::note,
         "HBMWIRE_GID_INDEX and NCCL_IB_GID_INDEX name an entry of one end's own table: leave them "
         "out, or set them at each end",
         read_gid_indices}};

}  // namespace

std::span<const Fact> port_facts() noexcept { return kPortFacts; }

}  // namespace hbmwire::tools::doctor
