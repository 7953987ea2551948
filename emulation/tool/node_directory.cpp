// SPDX-License-Identifier: MIT
#include "emulation/tool/node_directory.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <random>

#include "emulation/common/posted_writes.hpp"
#include "emulation/common/world.hpp"
#include "emulation/nic/state/links.hpp"
#include "emulation/tool/kept_devices.hpp"
#include "emulation/tool/kernel_config.hpp"
#include "emulation/tool/sysfs_writer.hpp"

namespace hbmwire::emulation::tool {
namespace {

Status create_sparse_file(const std::filesystem::path& path, std::uint64_t size_bytes) {
  const Fd fd{::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)};
  if (!fd) return cannot("create " + path.string());
  if (::ftruncate(fd.get(), static_cast<off_t>(size_bytes)) != 0) {
    return cannot(fmt::format("make {} {} GiB large (it takes no space until written)",
                              path.string(), size_bytes >> 30));
  }
  return {};
}

/// A random id (a UUID of version 4), as the kernel makes one at each boot. Each node is a machine
/// of its own.
std::string new_boot_id() {
  std::random_device random;
  const auto word = [&] { return random(); };
  return fmt::format("{:08x}-{:04x}-4{:03x}-{:04x}-{:08x}{:04x}", word(), word() & 0xffffU,
                     word() & 0xfffU, 0x8000U | (word() & 0x3fffU), word(), word() & 0xffffU);
}

Status create_card(const std::filesystem::path& card, std::uint64_t memory_bytes,
                   bool needs_flushes) {
  if (::mkdir(card.c_str(), 0700) != 0) return cannot("create " + card.string());
  for (const char* name : {"device", "state"}) {
    if (auto made = create_sparse_file(card / name, 0); !made) return made;
  }
  if (needs_flushes && !emulation::PostedWrites::create(card / "posted", memory_bytes))
    return cannot("create " + (card / "posted").string());
  return create_sparse_file(card / "hbm", memory_bytes);
}

}  // namespace

std::filesystem::path users_file(const std::filesystem::path& node) { return node / "users"; }

std::filesystem::path kernel_config_file(const std::filesystem::path& node) {
  return node / "kernel-config";
}

Status create_node(const std::filesystem::path& node, const NodeConfig& config,
                   std::uint8_t fabric) {
  if (::mkdir(node.c_str(), 0700) != 0) return cannot("create " + node.string());
  const emulation::World world{node.parent_path().parent_path(), node};
  const auto& hardware = config.hardware;
  const bool needs_flushes =
      std::ranges::any_of(hardware.behaviour, [](const auto& nic) { return nic.flush; });
  for (const auto family : kCardFamilies) {
    const auto bytes = model_of(hardware, family).memory_bytes;
    for (unsigned i = 0; i < hardware.cards(family); ++i) {
      if (auto made = create_card(world.card(name_of(family), i), bytes, needs_flushes); !made)
        return made;
    }
  }
  auto machine = Machine::here();
  machine.kept = kept_links("/sys", hardware);
  if (auto made = write_sysfs_tree(world.sysfs(), hardware, machine, fabric, config.number);
      !made) {
    return made;
  }
  // An earlier node of that number may have left its links down. If the fabric belongs to another
  // build of hbmwire, this fails, and the NICs refuse the fabric themselves.
  (void)emulation::nic::renew_ports(node.parent_path().parent_path(),
                                    PortAddress{fabric, config.number, 1, 1}.fabric_port(),
                                    kMaxNics * kMaxPorts);
  SysfsWriter writer(node);
  writer.file("boot_id", new_boot_id());
  writer.bytes("kernel-config", with_peer_to_peer(""));
  writer.file("config",
              fmt::format("{} {} {} {} {} {} {} {:x} {:d} {:x}", config.number, hardware.nics,
                          hardware.ports, hardware.gaudi, name_of(hardware.gaudi_kind),
                          hardware.cuda, hardware.rocm, hardware.infiniband.to_ulong(),
                          hardware.large_bar, hardware.kept.to_ulong()));
  return writer.status();
}

Result<NodeConfig> read_config(const std::filesystem::path& node) {
  std::ifstream file(node / "config");
  unsigned number = 0;
  NodeConfig config;
  auto& hardware = config.hardware;
  std::string kind;
  unsigned long infiniband = 0;
  unsigned long kept = 0;
  file >> number >> hardware.nics >> hardware.ports >> hardware.gaudi >> kind >> hardware.cuda >>
      hardware.rocm >> std::hex >> infiniband >> hardware.large_bar >> kept;
  const auto known = kind_from_name(kind);
  if (!file || number == 0 || number > kMaxNodes || !known) {
    return problem("cannot join " + node.string() +
                   ": its config file is not of this version of hbmwire");
  }
  config.number = static_cast<std::uint8_t>(number);
  hardware.gaudi_kind = *known;
  hardware.infiniband = infiniband;
  hardware.kept = kept;
  const emulation::World world{node.parent_path().parent_path(), node};
  for (unsigned nic = 0; nic < std::min(config.hardware.nics, kMaxNics); ++nic) {
    config.hardware.behaviour[nic] = emulation::nic::read_behaviour(
        world.sysfs() / fmt::format("class/infiniband/emu{}/behaviour", nic));
  }
  return config;
}

bool is_used(const std::filesystem::path& node) {
  std::error_code ignored;
  const auto users = users_file(node);
  return std::filesystem::exists(users, ignored) && !lock_exclusively(users, Wait::no, false);
}

bool remove_node_if_unused(const std::filesystem::path& node) {
  std::error_code ignored;
  const auto users = users_file(node);
  // Without the file no process is in the node: its maker was killed before joining.
  std::optional<Fd> nobody_else;
  if (std::filesystem::exists(users, ignored)) {
    nobody_else = lock_exclusively(users, Wait::no, false);
    if (!nobody_else) return false;
  }
  std::filesystem::remove_all(node, ignored);
  return true;
}

}  // namespace hbmwire::emulation::tool
