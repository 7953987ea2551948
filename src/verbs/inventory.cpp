// SPDX-License-Identifier: MIT
#include "verbs/inventory.hpp"

#include <net/if.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>

#include "hbmwire/memory_domain.hpp"

#include "base/log.hpp"
#include "verbs/calls.hpp"
#include "verbs/device_list.hpp"
#include "verbs/port.hpp"

namespace hbmwire::verbs {

namespace {

std::string_view state_name(ibv_port_state state) noexcept {
  switch (state) {
    case IBV_PORT_NOP:
      return "no change";
    case IBV_PORT_DOWN:
      return "down";
    case IBV_PORT_INIT:
      return "initialising";
    case IBV_PORT_ARMED:
      return "armed";
    case IBV_PORT_ACTIVE:
      return "active";
    case IBV_PORT_ACTIVE_DEFER:
      return "active, deferred";
  }
  return "?";
}

// Reads sysfs, because active_speed of ibv_query_port(3) has no value for rates above 4X NDR.
std::uint64_t rate_of(const ibv_device* device, std::uint8_t port) {
  std::ifstream file(std::filesystem::path(device->ibdev_path) / "ports" / std::to_string(port) /
                     "rate");
  std::string line;
  return std::getline(file, line) ? parse_rate(line) : 0;
}

std::string interface_name(std::uint32_t index) {
  std::array<char, IF_NAMESIZE> name{};
  return index != 0 && if_indextoname(index, name.data()) != nullptr ? name.data() : "";
}

NicPort describe_port(ibv_context* context, std::uint8_t number,
                      std::optional<std::uint8_t> gid_index) {
  NicPort port;
  port.info.name = ibv_get_device_name(context->device);
  port.info.port = number;
  port.rate_bits_per_second = rate_of(context->device, number);
  ibv_port_attr attributes{};
  const auto asked = from_errno_result(ibv_query_port(context, number, &attributes), Stage::open,
                                       "ibv_query_port", port.info.name);
  if (!asked) {
    port.refusal = asked.error();
    return port;
  }
  port.state = state_name(attributes.state);
  port.info = port_info(context, number, attributes);
  const auto table = read_gid_table(context, number, attributes.gid_tbl_len);
  for (const GidEntry& entry : table) {
    port.gids.push_back({.index = entry.index,
                         .gid = gid_text(entry.gid),
                         .type = std::string(type_name(entry.type)),
                         .interface = interface_name(entry.interface)});
  }
  if (auto chosen = query_port(context, number, gid_index)) {
    port.info = std::move(*chosen);
  } else {
    port.refusal = chosen.error();
  }
  return port;
}

// Tries to register an invalid descriptor. A NIC that imports dma-bufs looks at it (EBADF); any
// other NIC refuses the call itself.
std::optional<bool> imports_dmabufs(ibv_context* context) {
  auto pd = from_pointer<Pd>(ibv_alloc_pd(context), Stage::probe, "ibv_alloc_pd", "");
  if (!pd) return std::nullopt;
  constexpr std::size_t kPage = 4096;
  errno = 0;
  const Mr mr(ibv_reg_dmabuf_mr(pd->get(), 0, kPage, 0, -1, IBV_ACCESS_LOCAL_WRITE));
  if (mr) return true;
  return errno != EOPNOTSUPP && errno != EPROTONOSUPPORT && errno != ENOSYS;
}

/// libibverbs stores counts as int.
std::uint32_t count(int number) noexcept { return static_cast<std::uint32_t>(std::max(number, 0)); }

NicDevice describe_device(ibv_device* device, std::optional<std::uint8_t> gid_index) {
  NicDevice nic;
  nic.name = ibv_get_device_name(device);
  nic.pci_address = pci_address(device);
  nic.scale_up = is_accelerators_own(device);
  errno = 0;
  auto context = from_pointer<DeviceContext>(ibv_open_device(device), Stage::open,
                                             "ibv_open_device", nic.name);
  if (!context) {
    nic.refusal = context.error();
    if (nic.refusal->code == Errc::permission_denied) nic.refusal->hint = Hint::nic_permission;
    return nic;
  }
  ibv_device_attr attributes{};
  const auto asked = from_errno_result(ibv_query_device(context->get(), &attributes), Stage::open,
                                       "ibv_query_device", nic.name);
  if (!asked) {
    nic.refusal = asked.error();
    return nic;
  }
  nic.firmware = attributes.fw_ver;
  nic.limits = {.max_qp = count(attributes.max_qp),
                .max_cq = count(attributes.max_cq),
                .max_cqe = count(attributes.max_cqe),
                .max_mr = count(attributes.max_mr),
                .max_srq = count(attributes.max_srq)};
  // Not asked on a scale-up NIC, whose driver was not made for this.
  if (!nic.scale_up) nic.imports_dmabufs = imports_dmabufs(context->get());
  for (unsigned port = 1; port <= attributes.phys_port_cnt; ++port) {
    nic.ports.push_back(describe_port(context->get(), static_cast<std::uint8_t>(port), gid_index));
    nic.ports.back().info.pci_address = nic.pci_address;
    nic.ports.back().info.firmware = nic.firmware;
  }
  return nic;
}

void log_refusals(const NicDevice& nic) {
  if (!log_wanted(LogLevel::debug)) return;
  if (nic.refusal)
    log_line(LogLevel::debug, [&] { return "nic " + nic.name + ": " + describe(*nic.refusal); });
  for (const NicPort& port : nic.ports) {
    if (!port.refusal) continue;
    log_line(LogLevel::debug, [&] {
      return "nic " + nic.name + ":" + std::to_string(port.info.port) + ": " +
             describe(*port.refusal);
    });
  }
}

}  // namespace

std::uint64_t parse_rate(std::string_view text) noexcept {
  double gigabits = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), gigabits);
  const std::string_view rest = text.substr(static_cast<std::size_t>(end - text.data()));
  const bool good =
      failure == std::errc{} && rest.starts_with(" Gb/sec") && gigabits > 0 && gigabits < 1e6;
  return good ? static_cast<std::uint64_t>(std::llround(gigabits * 1e9)) : 0;
}

Result<std::vector<NicDevice>> list_nics(std::optional<std::uint8_t> gid_index) {
  HBMWIRE_TRY_ASSIGN(const DeviceList list, DeviceList::get());
  if (list.devices().empty()) {
    return tl::make_unexpected(make_error(Errc::not_found, Stage::probe, "no RDMA device found", {},
                                          Hint::no_rdma_device));
  }
  std::vector<NicDevice> nics;
  for (ibv_device* device : list.devices()) {
    nics.push_back(describe_device(device, gid_index));
    log_refusals(nics.back());
  }
  return nics;
}

}  // namespace hbmwire::verbs
