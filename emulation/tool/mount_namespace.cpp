// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <fmt/core.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <fstream>

#include "emulation/tool/file_lock.hpp"
#include "emulation/tool/kernel_config.hpp"
#include "emulation/tool/namespaces.hpp"

namespace hbmwire::emulation::tool {
namespace {

namespace fs = std::filesystem;

bool make_private(const char* path) {
  return ::mount("none", path, nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

bool go_back_to(const Fd& root, const Fd& folder) {
  return ::fchdir(root.get()) == 0 && ::chroot(".") == 0 && ::fchdir(folder.get()) == 0;
}

// In a chroot, / is a folder of a mount that begins above it, and need not be a mount point. Only a
// whole mount can be made private. If that mount is shared, everything that is mounted in the
// chroot would appear on the machine too. setns(2) into a mount namespace, even into the own one,
// leads to the root of the namespace.
Status make_private_from_the_top() {
  const Fd root{::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)};
  const Fd folder{::open(".", O_PATH | O_DIRECTORY | O_CLOEXEC)};
  const Fd mounts{::open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC)};
  if (!root || !folder || !mounts)
    return cannot("make mounts private in a chroot: open /proc/self/ns/mnt");
  if (::setns(mounts.get(), CLONE_NEWNS) != 0) return cannot("make mounts private in a chroot");
  const int error = make_private("/") ? 0 : errno;
  if (!go_back_to(root, folder)) return cannot("return to the chroot");
  if (error != 0) return cannot("make mounts private", error);
  return {};
}

bool bind(const fs::path& from, const fs::path& to) {
  // Includes everything that is mounted below it: a user namespace must not uncover what its
  // creator has covered.
  return ::mount(from.c_str(), to.c_str(), nullptr, MS_BIND | MS_REC, nullptr) == 0;
}

bool make_file(const fs::path& path) {
  return static_cast<bool>(Fd{::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644)});
}

// Shows one entry of the real /dev. An entry that cannot be shown (a stale mount, an entry that
// vanishes) is left out.
void show_entry(const fs::directory_entry& entry, const fs::path& to) {
  std::error_code failure;
  if (entry.is_symlink(failure)) {
    fs::create_symlink(fs::read_symlink(entry.path(), failure), to, failure);
  } else if (entry.is_directory(failure)) {
    if (::mkdir(to.c_str(), 0755) == 0 && !bind(entry.path(), to)) ::rmdir(to.c_str());
  } else if (make_file(to) && !bind(entry.path(), to)) {
    ::unlink(to.c_str());
  }
}

// Whether an entry is hidden. The machine's own devices must not be confused with the emulated
// ones, unless their family is kept. The nodes in dri may belong to a screen, so they are hidden
// only if render nodes are emulated.
bool is_hidden(const std::string& name, const Hardware& hardware) {
  if (name == "infiniband") return true;
  if (name == "accel") return !hardware.keeps(CardFamily::gaudi);
  if (name == "kfd") return !hardware.keeps(CardFamily::rocm);
  if (name.starts_with("nvidia")) return !hardware.keeps(CardFamily::cuda);
  return name == "dri" && hardware.rocm > 0;
}

Status fill_dev(const fs::path& dev, const Hardware& hardware) {
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator("/dev", failure)) {
    const auto name = entry.path().filename();
    if (is_hidden(name.string(), hardware)) continue;
    show_entry(entry, dev / name);
  }
  if (failure) return cannot("read /dev", failure.value());
  for (const auto& node : device_nodes(hardware)) {
    const auto path = dev / node.name;
    fs::create_directories(path.parent_path(), failure);
    if (!make_file(path)) return cannot("create /dev/" + node.name);
    if (!bind("/dev/null", path)) return cannot("bind /dev/null to /dev/" + node.name);
  }
  return {};
}

// Mounts a tmpfs that is moved to the place of a folder later. It is built elsewhere, because in a
// place below that folder it would contain itself. Returns null if it cannot be mounted anywhere.
const char* mount_scaffold(const char* name) {
  constexpr std::array kScaffolds = {"/tmp", "/mnt", "/run", "/var"};
  for (const char* path : kScaffolds) {
    if (::mount(name, path, "tmpfs", MS_NOSUID, "mode=755") == 0) return path;
  }
  return nullptr;
}

Status replace_dev(const Hardware& hardware) {
  const char* const scaffold = mount_scaffold("hbmwire-dev");
  if (scaffold == nullptr) return cannot("mount a tmpfs on /tmp, /mnt, /run or /var");
  if (auto filled = fill_dev(scaffold, hardware); !filled) return filled;
  if (::mount(scaffold, "/dev", nullptr, MS_MOVE, nullptr) != 0)
    return cannot("mount the emulated /dev");
  return {};
}

// Escapes ':' and ',' by a backslash, because overlayfs takes them as separators.
std::string escaped(const fs::path& path) {
  std::string text;
  for (const char c : path.string()) {
    if (c == ':' || c == ',' || c == '\\') text += '\\';
    text += c;
  }
  return text;
}

void overlay_sysfs(const fs::path& tree) {
  // The links in class/ and bus/ lead to devices/, so a part without the others is worse than none.
  for (const char* part : {"devices", "bus", "class"}) {
    const auto target = fs::path("/sys") / part;
    const auto lower = fmt::format("lowerdir={}:{}", escaped(tree / part), target.string());
    if (::mount("hbmwire-sysfs", target.c_str(), "overlay", MS_RDONLY, lower.c_str()) != 0) return;
  }
}

// Shows the node's own boot id, by which nodes tell each other that they are different machines. If
// it cannot be shown, they look like one machine.
void show_boot_id(const fs::path& node) {
  static_cast<void>(bind(node / "boot_id", "/proc/sys/kernel/random/boot_id"));
}

bool write_file(const fs::path& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  return static_cast<bool>(file);
}

// Shows the entries of the real /boot except `but`.
void fill_boot(const fs::path& boot, const std::string& but) {
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator("/boot", failure)) {
    const auto name = entry.path().filename();
    if (name != but) show_entry(entry, boot / name);
  }
}

// Programs that move accelerators' memory by dma-bufs (perftest, UCX) check whether the kernel has
// peer-to-peer DMA. If the emulated configuration cannot be shown, they see the machine's.
void show_kernel_config() {
  utsname system{};
  ::uname(&system);
  const std::string name = "config-" + std::string(system.release);
  const std::string text = with_peer_to_peer(machine_kernel_config(system.release));
  const char* const scaffold = mount_scaffold("hbmwire-boot");
  if (scaffold == nullptr) return;
  const fs::path compressed = fs::path(scaffold) / "config.gz";
  if (::access("/proc/config.gz", F_OK) == 0 && write_gzip(compressed, text))
    static_cast<void>(bind(compressed, "/proc/config.gz"));
  ::unlink(compressed.c_str());  // the mount keeps the file
  const bool written = write_file(fs::path(scaffold) / name, text);
  if (written) fill_boot(scaffold, name);
  if (!written || ::mount(scaffold, "/boot", nullptr, MS_MOVE, nullptr) != 0)
    ::umount2(scaffold, MNT_DETACH);
}

}  // namespace

std::vector<DeviceNode> device_nodes(const Hardware& hardware) {
  std::vector<DeviceNode> nodes;
  for (unsigned i = 0; i < hardware.nics; ++i)
    nodes.push_back({fmt::format("infiniband/uverbs{}", i), true});
  // The device of librdmacm. It is emulated without opening this node, but programs check whether
  // it exists.
  if (hardware.nics > 0) nodes.push_back({"infiniband/rdma_cm", false});
  for (unsigned i = 0; i < hardware.gaudi; ++i) {
    nodes.push_back({fmt::format("accel/accel{}", i), false});
    nodes.push_back({fmt::format("accel/accel_controlD{}", i), false});
  }
  if (hardware.cuda > 0) {
    for (const char* name : {"nvidiactl", "nvidia-uvm"}) nodes.push_back({name, false});
  }
  for (unsigned i = 0; i < hardware.cuda; ++i) nodes.push_back({fmt::format("nvidia{}", i), false});
  if (hardware.rocm > 0) nodes.push_back({"kfd", false});
  for (unsigned i = 0; i < hardware.rocm; ++i) nodes.push_back({"dri/" + render_node(i), false});
  return nodes;
}

Status enter_private_mount_namespace() {
  if (::unshare(CLONE_NEWNS) != 0) return cannot("create a mount namespace");
  if (make_private("/")) return {};
  if (errno != EINVAL) return cannot("make mounts private");
  return make_private_from_the_top();
}

Status enter_emulated_view(const emulation::World& world, const Hardware& hardware) {
  if (auto entered = enter_private_mount_namespace(); !entered) return entered;
  overlay_sysfs(world.sysfs());
  show_boot_id(world.node);
  if (hardware.has_own_kernel_config()) show_kernel_config();
  return replace_dev(hardware);
}

}  // namespace hbmwire::emulation::tool
