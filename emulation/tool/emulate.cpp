// SPDX-License-Identifier: MIT
#include "emulation/tool/emulate.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "emulation/tool/child.hpp"
#include "emulation/tool/end_cause.hpp"
#include "emulation/tool/fabric_directory.hpp"
#include "emulation/tool/held_signals.hpp"
#include "emulation/tool/host_nodes.hpp"
#include "emulation/tool/janitor.hpp"
#include "emulation/tool/kept_devices.hpp"
#include "emulation/tool/namespaces.hpp"
#include "emulation/tool/netlink_filter.hpp"
#include "emulation/tool/node_directory.hpp"
#include "emulation/tool/options.hpp"
#include "emulation/tool/rdma_core.hpp"

namespace hbmwire::emulation::tool {
namespace {

// libibverbs stores sysfs paths in 256 bytes and appends up to
// "/class/infiniband_verbs/uverbs15/abi_version".
constexpr std::size_t kLongestSysfsPath = 200;

// With less room than this a card's memory fills up during a test of ordinary size. A default
// container has 64 MiB.
constexpr std::uint64_t kSmallBytes = 256ULL << 20;

int failed(const std::string& sentence) {
  fmt::print(stderr, "hbmwire emulate: {}\n", sentence);
  return kExitSetup;
}

/// Ends a run that has not started COMMAND. If a signal has come, it is the cause.
int gave_up(const std::string& sentence) {
  const int signal = held_end();
  if (signal == 0) return failed(sentence);
  failed("interrupted");
  return kExitSignalled + signal;
}

/// Facts that are found out before anything is set up.
struct Stage {
  std::filesystem::path libraries;
  std::filesystem::path searched;  ///< where COMMAND finds libraries, without kept families' ones
  bool namespaces = false;
  std::string refusal;  ///< the reason why there are no namespaces
};

// Checks that so many descriptors are left as making the world takes, and removing it later: for
// locks, and for nested folders.
Status check_descriptors() {
  constexpr std::size_t kNeeded = 24;
  std::array<Fd, kNeeded> tried;
  for (Fd& fd : tried) {
    fd = Fd{::open("/", O_PATH | O_CLOEXEC)};
    if (!fd) return cannot(fmt::format("open the {} files that it takes", kNeeded));
  }
  return {};
}

Result<Stage> prepare_stage(const Options& options) {
  if (const auto outer = emulation::World::from_environment()) {
    return problem(fmt::format(
        "this is already inside the emulated node {}; worlds do not nest, so leave it first "
        "(or unset {})",
        outer->node_name(), emulation::kNodeVariable));
  }
  Stage stage;
  auto libraries = emulation_directory(options.hardware);
  if (!libraries) return tl::unexpected(libraries.error());
  stage.libraries = std::move(*libraries);
  if (!options.namespaces) {
    stage.refusal = "--no-namespaces";
    return stage;
  }
  const auto tried = try_namespaces();
  stage.namespaces = tried.has_value();
  if (!tried) stage.refusal = tried.error();
  return stage;
}

void prepend(const char* variable, const std::string& value) {
  const char* const old = std::getenv(variable);
  const bool had_one = old != nullptr && *old != '\0';
  ::setenv(variable, had_one ? fmt::format("{}:{}", value, old).c_str() : value.c_str(), 1);
}

void set_environment(const Options& options, const Stage& stage, const Membership& member) {
  const auto& world = member.world;
  ::setenv("HBMWIRE_EMULATED", "1", 1);
  ::setenv(emulation::kFabricVariable, world.fabric.c_str(), 1);
  ::setenv(emulation::kNodeVariable, world.node.c_str(), 1);
  if (options.faults.empty()) {
    ::unsetenv(emulation::kFaultsVariable);
  } else {
    ::setenv(emulation::kFaultsVariable, options.faults.c_str(), 1);
  }
  if (options.quiet) ::setenv(emulation::kQuietVariable, "1", 1);
  ::setenv("SYSFS_PATH", world.sysfs().c_str(), 1);
  // With a view, programs find the kernel's configuration in its usual places.
  if (!stage.namespaces && member.hardware.has_own_kernel_config())
    ::setenv("HBMWIRE_ROCM_KERNEL_CONFIG", kernel_config_file(world.node).c_str(), 1);
  prepend("IBV_DRIVERS", (stage.libraries / kPlugin).string());
  prepend("LD_LIBRARY_PATH", stage.searched.string());
}

// Runs in the child that becomes COMMAND.
Status enter(const Options& options, const Stage& stage, const Membership& member) {
  if (stage.namespaces) {
    if (auto entered = enter_emulated_view(member.world, member.hardware); !entered) {
      return problem(entered.error() + "; --no-namespaces may do");
    }
  }
  set_environment(options, stage, member);
  // libibverbs must not take its list of devices from the kernel.
  if (kernel_has_rdma_netlink()) {
    constexpr int kNetlinkRdma = 20;  // NETLINK_RDMA
    return block_netlink(kNetlinkRdma);
  }
  return {};
}

void announce_loss() {
  const char* const remedy =
      needs_user_namespace()
          ? "run as root, or allow user namespaces (a chroot has none; a container needs --cap-add "
            "SYS_ADMIN --security-opt seccomp=unconfined)"
          : "run with the capabilities SYS_ADMIN and SYS_CHROOT, and with /proc, /dev and /sys "
            "mounted";
  fmt::print(stderr,
             "emulated: without a view, the device nodes are in the machine's own /dev, libibverbs "
             "alone finds the devices in sysfs, and all nodes have the machine's boot id; to have "
             "a view, {}\n",
             remedy);
}

void announce(const Options& options, const Stage& stage, const Membership& member) {
  fmt::print(stderr, "emulated: fabric {}, node {}: {}, in {}{}\n",
             member.world.fabric.filename().string(), member.world.node_name(),
             devices_in_words(member.hardware) + in_words(member.hardware),
             member.world.node.string(),
             stage.namespaces ? "" : "; without a view of /dev and /sys (" + stage.refusal + ")");
  if (options.namespaces && !stage.namespaces) announce_loss();

  struct statvfs info {};

  if (::statvfs(member.world.fabric.c_str(), &info) != 0) return;
  const auto available = static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
  if (member.hardware.all_cards() > 0 && available < kSmallBytes) {
    fmt::print(stderr,
               "emulated: only {} MiB are free for the cards' memory: start the container with "
               "--shm-size=8g, "
               "or choose another place with --dir\n",
               available >> 20);
  }
}

Result<Fd> keep_host_nodes(const Stage& stage, const Hardware& hardware) {
  if (stage.namespaces) return Fd{};
  auto nodes = make_host_nodes(hardware);
  if (nodes) return nodes;
  return problem(fmt::format(
      "cannot show the emulated NICs: {}, and without namespaces ({}) libibverbs needs nodes in "
      "/dev/infiniband; run as root, allow user namespaces (in a container: --cap-add SYS_ADMIN "
      "--security-opt seccomp=unconfined), or have an administrator run "
      "'mknod -m 666 /dev/infiniband/uverbs0 c 1 3'",
      nodes.error(), stage.refusal));
}

// Registers every process that may outlive the others, because a user namespace can be joined only
// through a process in it.
void register_processes(const std::filesystem::path& fabric,
                        std::initializer_list<pid_t> processes) {
  for (const pid_t process : processes) {
    // If no process is registered, a later one gets a user namespace of its own. Its only loss is
    // that it cannot reach other nodes' memory by process_vm_readv.
    if (process > 0) (void)register_user_namespace(fabric, process);
  }
}

Result<int> run_inside(const Options& options, const HeldSignals& held, Stage& stage,
                       Membership& member) {
  if (member.world.sysfs().string().size() > kLongestSysfsPath) {
    return problem(fmt::format(
        "{} is too long a path for libibverbs; choose a shorter --dir, --name or --fabric",
        member.world.sysfs().string()));
  }
  const bool own_users = stage.namespaces && needs_user_namespace();
  if (own_users) {
    if (const auto entered = enter_user_namespace(member.world.fabric); !entered) {
      return tl::unexpected(entered.error());
    }
  }
  if (const auto changed = change_links(member.world, options.links); !changed) {
    return tl::unexpected(changed.error());
  }
  auto searched = libraries_but_kept(stage.libraries, member.world.node, member.hardware);
  if (!searched) return tl::unexpected(searched.error());
  stage.searched = std::move(*searched);
  auto host_nodes = keep_host_nodes(stage, member.hardware);
  if (!host_nodes) return tl::unexpected(host_nodes.error());

  if (held_end() != 0) return problem("interrupted");
  pid_t janitor = start_janitor(member.world);
  if (!options.quiet) announce(options, stage, member);
  const EndCause cause(member.world.fabric);
  const auto child =
      Child::start(options.command, held, [&] { return enter(options, stage, member); });
  if (own_users) {
    register_processes(member.world.fabric, {::getpid(), janitor, child ? child->pid() : 0});
  }
  member.lock.unlock();  // from now on other processes may join and leave
  int exit_code = child ? child->wait() : failed(child.error());
  // The hardware is the cause, so the exit code is that of a hardware failure.
  if (const auto why = cause.explain(exit_code); !why.empty()) exit_code = failed(why);

  // This process removes the world itself. If others still use it, a new janitor waits for them.
  stop_janitor(janitor);
  member.users.reset();
  host_nodes->reset();
  if (!clean_up(member.world)) {
    janitor = start_janitor(member.world);
    if (own_users) register_processes(member.world.fabric, {janitor});
  }
  return exit_code;
}

// --link without COMMAND.
int change_running_node(const Options& options) {
  const auto world = running_world(options);
  if (!world) return failed(world.error());
  const auto lock = lock_exclusively(world->fabric / "lock", Wait::yes, false);
  if (!lock || !is_used(world->node))
    return failed(fmt::format("no node runs in {}", world->node.string()));
  const auto changed = change_links(*world, options.links);
  return changed ? 0 : failed(changed.error());
}

int run(const Options& options) {
  if (const auto enough = check_descriptors(); !enough) return failed(enough.error());
  if (options.command == nullptr) return change_running_node(options);
  // Until the janitor runs, only this process can remove the world, so signals are held back.
  const HeldSignals held;
  sweep(base_directory(options.parent));
  remove_host_nodes_if_unused();
  auto stage = prepare_stage(options);
  if (!stage) return gave_up(stage.error());
  auto member = join(options);
  if (!member) return gave_up(member.error());
  const auto world = member->world;
  const auto exit_code = run_inside(options, held, *stage, *member);
  if (exit_code) return *exit_code;
  member = problem(exit_code.error());  // releases the locks
  clean_up(world);
  return gave_up(exit_code.error());
}

}  // namespace

int run_emulate(int argc, char** argv) {
  const auto options = parse_options(argc, argv);
  if (const int* const exit_code = std::get_if<int>(&options)) return *exit_code;
  return run(std::get<Options>(options));
}

}  // namespace hbmwire::emulation::tool
