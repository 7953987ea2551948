// SPDX-License-Identifier: MIT
#include "emulation/tool/links.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <charconv>

#include "emulation/nic/state/links.hpp"
#include "emulation/tool/node_directory.hpp"

namespace hbmwire::emulation::tool {
namespace {

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

bool take_number(std::string_view& text, unsigned& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

// Writes in place: a program that has the file open, or sees it through an overlay, must read the
// new state.
Status rewrite(const std::filesystem::path& path, std::string line) {
  line += '\n';
  const Fd fd{::open(path.c_str(), O_WRONLY | O_CLOEXEC)};
  if (!fd || ::pwrite(fd.get(), line.data(), line.size(), 0) < 0 ||
      ::ftruncate(fd.get(), static_cast<off_t>(line.size())) != 0) {
    return cannot("write " + path.string());
  }
  return {};
}

Status change_port(const emulation::World& world, const PortAddress& address, bool up) {
  if (const int error = emulation::nic::set_link(world.fabric, address.fabric_port(), up);
      error != 0) {
    return cannot("use " + (world.fabric / "nic.shm").string(), error);
  }
  const auto port =
      world.sysfs() / fmt::format("class/infiniband/emu{}/ports/{}", address.nic - 1, address.port);
  if (auto written = rewrite(port / "state", up ? "4: ACTIVE" : "1: DOWN"); !written)
    return written;
  return rewrite(port / "phys_state", up ? "5: LinkUp" : "3: Disabled");
}

Status check(const LinkChange& change, const Hardware& hardware, const std::string& node) {
  if (change.nic >= hardware.nics)
    return problem(fmt::format("node {} has no NIC emu{}", node, change.nic));
  if (change.port > hardware.ports)
    return problem(fmt::format("emu{} of node {} has no port {}", change.nic, node, change.port));
  return {};
}

}  // namespace

Result<LinkChange> parse_link(std::string_view text) {
  const auto wrong = problem(
      fmt::format("--link {} is not of the form emuN=down, emuN=up or emuN/PORT=...", text));
  LinkChange change;
  if (!take(text, "emu") || !take_number(text, change.nic)) return wrong;
  if (take(text, "/") && (!take_number(text, change.port) || change.port == 0)) return wrong;
  if (text != "=down" && text != "=up") return wrong;
  change.up = text == "=up";
  return change;
}

Status change_links(const emulation::World& world, const std::vector<LinkChange>& changes) {
  if (changes.empty()) return {};
  const auto config = read_config(world.node);
  if (!config) return tl::unexpected(config.error());
  const Hardware& hardware = config->hardware;
  for (const LinkChange& change : changes) {
    if (auto good = check(change, hardware, world.node_name()); !good) return good;
  }
  for (const LinkChange& change : changes) {
    for (unsigned port = 1; port <= hardware.ports; ++port) {
      if (change.port != 0 && change.port != port) continue;
      // fabric_port() does not need the fabric's number.
      const PortAddress address{0, config->number, static_cast<std::uint8_t>(change.nic + 1),
                                static_cast<std::uint8_t>(port)};
      if (auto changed = change_port(world, address, change.up); !changed) return changed;
    }
  }
  return {};
}

}  // namespace hbmwire::emulation::tool
