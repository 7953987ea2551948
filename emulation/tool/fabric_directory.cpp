// SPDX-License-Identifier: MIT
#include "emulation/tool/fabric_directory.hpp"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bitset>
#include <fstream>
#include <random>
#include <vector>

#include "emulation/tool/node_directory.hpp"

namespace hbmwire::emulation::tool {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> entries(const fs::path& directory) {
  std::vector<fs::path> paths;
  std::error_code failure;
  for (fs::directory_iterator it(directory, failure), end; !failure && it != end;
       it.increment(failure)) {
    paths.push_back(it->path());
  }
  return paths;
}

// The remedy for any problem with the place of a world is to choose another one.
tl::unexpected<std::string> cannot_use(const char* what, const fs::path& path, int error = errno) {
  auto sentence = cannot(fmt::format("{} {}", what, path.string()), error);
  if (remedy_of(error).empty()) sentence.value() += "; choose another place with --dir";
  return sentence;
}

// An attempt fails only if another process leaves at that moment.
constexpr int kAttempts = 1000;

// The base may lie in a directory that everyone can write to, so it must be a directory of ours and
// not a link. The last process to leave removes it, so an existing one may be gone at the next
// look.
Status make_private_directory(const fs::path& path) {
  struct stat info {};

  int error = ENOENT;
  for (int i = 0; i < kAttempts && error == ENOENT; ++i) {
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return cannot_use("create", path);
    error = ::lstat(path.c_str(), &info) == 0 ? 0 : errno;
  }
  if (error != 0) return cannot("look at " + path.string(), error);
  if (!S_ISDIR(info.st_mode) || info.st_uid != ::geteuid() || (info.st_mode & 077) != 0) {
    return problem(fmt::format(
        "{} is not a directory of this user alone; remove it, or choose another place with --dir",
        path.string()));
  }
  return {};
}

// Removes the fabric if it has no node left. The fabric's lock is held. The lock file goes last,
// because processes that wait for the lock check whether its file still exists.
void remove_fabric_if_empty(const fs::path& fabric) {
  std::error_code ignored;
  bool used = false;
  for (const auto& node : entries(fabric / "nodes")) used |= !remove_node_if_unused(node);
  if (used) return;
  for (const auto& entry : entries(fabric)) {
    if (entry.filename() != "lock") fs::remove_all(entry, ignored);
  }
  fs::remove(fabric / "lock", ignored);
  ::rmdir(fabric.c_str());
  ::rmdir(fabric.parent_path().c_str());
}

// Creates the fabric if necessary, and locks it. Before it is locked another process may remove it
// at any moment.
Result<Fd> lock_fabric(const fs::path& fabric) {
  for (int i = 0; i < kAttempts; ++i) {
    if (auto made = make_private_directory(fabric.parent_path()); !made) {
      return tl::unexpected(made.error());
    }
    if (::mkdir(fabric.c_str(), 0700) != 0 && errno != EEXIST && errno != ENOENT) {
      return cannot_use("create", fabric);
    }
    if (auto lock = lock_exclusively(fabric / "lock", Wait::until_signal, true))
      return std::move(*lock);
    if (errno != ENOENT) return cannot("lock " + fabric.string());
  }
  return cannot("lock " + fabric.string(), ETIMEDOUT);
}

// Checks that this process is in the namespaces of the fabric. NICs of a fabric find each other's
// processes by process ids, and reach their memory where the kernel allows it
// (process_vm_readv(2)). Both work only within one namespace. The fabric's lock is held.
Status check_namespaces(const fs::path& fabric) {
  struct stat pid {};

  struct stat user {};

  // The check is impossible without /proc.
  if (::stat("/proc/self/ns/pid", &pid) != 0 || ::stat("/proc/self/ns/user", &user) != 0) return {};
  const auto own = fmt::format("{} {}", pid.st_ino, user.st_ino);
  const auto path = fabric / "namespaces";
  if (std::string others; std::getline(std::ifstream(path), others)) {
    if (others == own) return {};
    return problem(fmt::format(
        "the fabric {} is of another PID or user namespace, whose processes can't be reached from "
        "here: run both in one (docker run --pid=host, --pid=container:NAME), or choose another "
        "--fabric",
        fabric.filename().string()));
  }
  std::ofstream made(path);
  made << own << std::endl;
  return made ? Status{} : cannot("write " + path.string());
}

Result<std::uint8_t> free_node_number(const fs::path& nodes) {
  std::bitset<kMaxNodes + 1> taken;
  for (const auto& node : entries(nodes)) {
    if (const auto config = read_config(node)) taken.set(config->number);
  }
  for (unsigned number = 1; number <= kMaxNodes; ++number) {
    if (!taken.test(number)) return static_cast<std::uint8_t>(number);
  }
  return problem(fmt::format("the fabric is full: it has {} nodes", kMaxNodes));
}

/// The names as --keep takes them.
std::string names_of_kept(const Hardware& hardware) {
  std::string names;
  for (const auto family : kCardFamilies) {
    if (hardware.keeps(family))
      names += fmt::format("{}{}", names.empty() ? "" : ",", name_of(family));
  }
  return names.empty() ? "nothing" : names;
}

Status check_agreement(const Options& options, const Hardware& present) {
  const auto& wanted = options.hardware;
  const auto conflict = [&](std::string_view option, auto asked, auto found) {
    return problem(
        fmt::format("node {} exists with {} {}, not {}; leave the option out to join it as it is",
                    options.node, option, found, asked));
  };
  if (options.nics_given && wanted.nics != present.nics) {
    return conflict("--nics", wanted.nics, present.nics);
  }
  if (options.ports_given && wanted.ports != present.ports) {
    return conflict("--ports", wanted.ports, present.ports);
  }
  for (const auto family : kCardFamilies) {
    const bool given = options.cards_given.at(static_cast<std::size_t>(family));
    if (!given || wanted.cards(family) == present.cards(family)) continue;
    return conflict(fmt::format("--{}", name_of(family)), wanted.cards(family),
                    present.cards(family));
  }
  if (options.kind_given && wanted.gaudi_kind != present.gaudi_kind) {
    return conflict("--gaudi-kind", name_of(wanted.gaudi_kind), name_of(present.gaudi_kind));
  }
  if (options.bar_given && wanted.large_bar != present.large_bar) {
    const auto name = [](const Hardware& one) { return one.large_bar ? kLargeBar : kSmallBar; };
    return conflict("--bar", name(wanted), name(present));
  }
  if (options.keep_given && wanted.kept != present.kept)
    return conflict("--keep", names_of_kept(wanted), names_of_kept(present));
  if (!options.behaviours_given) return {};
  Hardware as_asked = present;
  if (auto applied = apply(options.behaviours, as_asked); !applied) return applied;
  if (as_asked != present) {
    return problem(fmt::format(
        "the NICs of node {} behave otherwise (it was made with other --async, --seed, "
        "--rate, --latency, --like-hardware, --without or --link-layer); leave these options out "
        "to join it as it is",
        options.node));
  }
  return {};
}

Result<NodeConfig> create(const fs::path& node, const Options& options) {
  const auto fabric = node.parent_path().parent_path();
  const auto number = free_node_number(node.parent_path());
  if (!number) return tl::unexpected(number.error());
  NodeConfig config{options.hardware, *number};
  if (auto applied = apply(options.behaviours, config.hardware); !applied)
    return tl::unexpected(applied.error());
  const auto made = create_node(node, config, fabric_number(fabric.filename().string()));
  if (!made) return tl::unexpected(made.error());
  return config;
}

// The name is short, because libibverbs and UNIX sockets have little room for paths.
std::string unique_name(std::string_view kind) {
  return fmt::format("{}-{:08x}", kind, std::random_device{}());
}

std::string fabric_name(const Options& options) {
  if (!options.fabric.empty()) return options.fabric;
  // Names may have 64 characters, file names 255.
  return options.node.empty() ? unique_name("run") : "node-" + options.node;
}

}  // namespace

fs::path base_directory(const fs::path& parent) {
  return parent / fmt::format("hbmwire-{}", ::geteuid());
}

Result<emulation::World> running_world(const Options& options) {
  if (options.node.empty()) {
    const auto around = emulation::World::from_environment();
    if (around && options.fabric.empty()) return *around;
    return problem("--link without COMMAND changes a node that runs: say which by --name X");
  }
  std::error_code failure;
  const auto parent = fs::canonical(options.parent, failure);
  if (failure) return cannot_use("use", options.parent, failure.value());
  const auto fabric = base_directory(parent) / fabric_name(options);
  return emulation::World{fabric, fabric / "nodes" / options.node};
}

Result<Membership> join(const Options& options) {
  std::error_code failure;
  const auto parent = fs::canonical(options.parent, failure);
  if (failure) return cannot_use("use", options.parent, failure.value());

  Membership member;
  member.world.fabric = base_directory(parent) / fabric_name(options);
  auto lock = lock_fabric(member.world.fabric);
  if (!lock) return tl::unexpected(lock.error());
  member.lock = std::move(*lock);

  const auto nodes = member.world.fabric / "nodes";
  // A new fabric must not contain the remains of killed runs.
  bool alone = true;
  for (const auto& node : entries(nodes)) alone &= remove_node_if_unused(node);
  if (alone) {
    for (const auto& entry : entries(member.world.fabric)) {
      if (entry.filename() != "lock") fs::remove_all(entry, failure);
    }
  }

  auto reachable = check_namespaces(member.world.fabric);
  if (reachable) reachable = make_private_directory(nodes);
  if (!reachable) {
    remove_fabric_if_empty(member.world.fabric);
    return tl::unexpected(reachable.error());
  }
  member.world.node = nodes / (options.node.empty() ? unique_name("node") : options.node);
  const bool exists = fs::exists(member.world.node, failure);
  auto config = exists ? read_config(member.world.node) : create(member.world.node, options);
  auto agreed =
      config ? check_agreement(options, config->hardware) : Status(tl::unexpected(config.error()));
  auto users = agreed ? hold_for_descendants(users_file(member.world.node))
                      : Result<Fd>(tl::unexpected(agreed.error()));
  if (!users) {
    remove_fabric_if_empty(member.world.fabric);
    return tl::unexpected(users.error());
  }
  member.hardware = config->hardware;
  member.users = std::move(*users);
  return member;
}

bool remove_if_unused(const emulation::World& world) {
  const auto lock = lock_exclusively(world.fabric / "lock", Wait::yes, false);
  if (!lock) return true;  // another process has removed the whole fabric
  if (!remove_node_if_unused(world.node)) return false;
  remove_fabric_if_empty(world.fabric);
  return true;
}

void sweep(const fs::path& base) {
  struct stat info {};

  if (::lstat(base.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != ::geteuid())
    return;
  for (const auto& fabric : entries(base)) {
    // If a fabric's lock is taken, a process is just joining or leaving.
    if (const auto lock = lock_exclusively(fabric / "lock", Wait::no, true))
      remove_fabric_if_empty(fabric);
  }
  ::rmdir(base.c_str());
}

}  // namespace hbmwire::emulation::tool
