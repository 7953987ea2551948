// SPDX-License-Identifier: MIT
#include "memory/gaudi/kernel_driver.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <bit>
#include <cerrno>

#include "base/destroy.hpp"
#include "base/sysfs.hpp"
#include "memory/gaudi/habanalabs_abi.hpp"

namespace hbmwire::memory::gaudi {

int DeviceCalls::open(const char* path) noexcept { return ::open(path, O_RDWR | O_CLOEXEC); }

int DeviceCalls::ioctl(int fd, unsigned long request, void* argument) noexcept {
  return ::ioctl(fd, request, argument);
}

int DeviceCalls::close(int fd) noexcept { return ::close(fd); }

namespace {

/// Returns 0 or -errno. If a signal interrupts the call, repeats it with the original arguments,
/// because the driver writes its answer over them.
template <class Args>
int call_once(DeviceCalls& calls, int fd, unsigned long request, Args& args) noexcept {
  const Args asked = args;
  while (calls.ioctl(fd, request, &args) < 0) {
    if (errno != EINTR) return -errno;
    args = asked;
  }
  return 0;
}

/// Returns 0 or -errno. Tries the numbers of both kinds of driver.
template <class Args>
int call(DeviceCalls& calls, int fd, const abi::Request& request, Args& args) noexcept {
  const Args asked = args;
  const int result = call_once(calls, fd, request.now, args);
  if (result != -ENOTTY) return result;
  args = asked;
  return call_once(calls, fd, request.before_6_7, args);
}

int execute(DeviceCalls& calls, int fd, abi::MemoryArgs& args) noexcept {
  return call(calls, fd, abi::kMemory, args);
}

int positive(int negative_errno) noexcept { return -negative_errno; }

/// Returns a descriptor or -errno. Tries both names of the node, because either is possible with
/// any version of the driver.
int open_node(DeviceCalls& calls, const std::string& path, const std::string& older_path) {
  int fd = calls.open(path.c_str());
  if (fd < 0 && errno == ENOENT) fd = calls.open(older_path.c_str());
  return fd < 0 ? -errno : fd;
}

}  // namespace

bool KernelDriver::answers_for(const std::vector<Card>& cards) const {
  for (const Card& card : cards) {
    if (card.index < 0) continue;
    const auto fd = open_control(card);
    if (!fd && fd.error().number == EACCES) return true;
    if (!fd) continue;
    const bool answers = facts(*fd, card.pci_address).has_value();
    close(*fd);
    if (answers) return true;
  }
  return false;
}

Result<int> KernelDriver::open(const std::string& pci_address) const {
  int error = ENOENT;
  for (const Card& card : find_cards()) {
    if (card.index < 0 || (!pci_address.empty() && card.pci_address != pci_address)) continue;
    const std::string number = std::to_string(card.index);
    const int fd = open_node(*calls_, "/dev/accel/accel" + number, "/dev/hl" + number);
    if (fd >= 0) return fd;
    if (fd != -ENOENT) error = -fd;
  }
  // The card exists. With hl-thunk, EINVAL would mean that it does not.
  if (error == EINVAL)
    return tl::make_unexpected(system_error(Stage::open, "open", EINVAL, pci_address));
  return tl::make_unexpected(open_error("open", error, pci_address));
}

Result<int> KernelDriver::open_control(const Card& card) const {
  const std::string number = std::to_string(card.index);
  const int fd =
      open_node(*calls_, "/dev/accel/accel_controlD" + number, "/dev/hl_controlD" + number);
  if (fd >= 0) return fd;
  return tl::make_unexpected(
      system_error(Stage::probe, "open", -fd, "/dev/accel/accel_controlD" + number));
}

void KernelDriver::close(int device_fd) const noexcept {
  if (calls_->close(device_fd) < 0) log_warning("close", "failed", errno);
}

Result<CardFacts> KernelDriver::facts(int device_fd, std::string_view card) const {
  abi::HwIpInfo info{};
  abi::InfoArgs args{.return_pointer = std::bit_cast<std::uintptr_t>(&info),
                     .return_size = sizeof(info),
                     .op = abi::kInfoHwIp};
  if (const int result = call(*calls_, device_fd, abi::kInfo, args); result < 0) {
    return tl::make_unexpected(
        system_error(Stage::open, "ioctl(HL_INFO_HW_IP_INFO)", -result, card));
  }
  return CardFacts{
      .device_id = info.device_id, .dram_bytes = info.dram_size, .page_bytes = info.dram_page_size};
}

Result<std::string> KernelDriver::pci_address(int device_fd) const {
  struct stat node {};

  if (::fstat(device_fd, &node) != 0)
    return tl::make_unexpected(system_error(Stage::open, "fstat", errno, "gaudi"));
  const auto entry =
      sysfs_root() / "dev/char" /
      (std::to_string(major(node.st_rdev)) + ":" + std::to_string(minor(node.st_rdev)));
  for (const char* name : {"device/pci_addr", "pci_addr"}) {
    if (auto address = read_line(entry / name); S_ISCHR(node.st_mode) && !address.empty())
      return address;
  }
  return tl::make_unexpected(
      make_error(Errc::invalid_argument, Stage::open, "no descriptor of a Gaudi card", "gaudi"));
}

Result<std::uint64_t> KernelDriver::allocate(int device_fd, std::uint64_t size_bytes,
                                             std::string_view card) const {
  // Page size 0: the default.
  abi::MemoryArgs args{.word = {size_bytes}, .op = abi::kMemoryAlloc};
  if (const int result = execute(*calls_, device_fd, args); result < 0) {
    return tl::make_unexpected(system_error(Stage::allocate, "ioctl(HL_MEM_OP_ALLOC)", -result,
                                            card, Hint::device_memory_exhausted));
  }
  if (args.word[0] != 0) return args.word[0];
  // On such a card the driver only counts the memory that programs say they use.
  return tl::make_unexpected(make_error(Errc::not_supported, Stage::allocate,
                                        "this card has no device virtual memory", card,
                                        Hint::gaudi1_memory));
}

Result<std::uint64_t> KernelDriver::map(int device_fd, std::uint64_t handle,
                                        std::string_view card) const {
  abi::MemoryArgs args{.word = {0, handle}, .op = abi::kMemoryMap};
  if (const int result = execute(*calls_, device_fd, args); result < 0) {
    return tl::make_unexpected(
        system_error(Stage::allocate, "ioctl(HL_MEM_OP_MAP)", -result, card));
  }
  return args.word[0];
}

void KernelDriver::unmap(int device_fd, std::uint64_t address) const noexcept {
  const auto unmap_once = [&] {
    abi::MemoryArgs args{.word = {address}, .op = abi::kMemoryUnmap};
    return execute(*calls_, device_fd, args);
  };
  destroy_or_log("ioctl(HL_MEM_OP_UNMAP)", unmap_once, positive);
}

void KernelDriver::free(int device_fd, std::uint64_t handle) const noexcept {
  const auto free_once = [&] {
    abi::MemoryArgs args{.word = {handle}, .op = abi::kMemoryFree};
    return execute(*calls_, device_fd, args);
  };
  destroy_or_log("ioctl(HL_MEM_OP_FREE)", free_once, positive);
}

Result<Fd> KernelDriver::export_mapping(int device_fd, std::uint64_t base, std::uint64_t size_bytes,
                                        std::string_view card) const {
  abi::MemoryArgs args{.word = {base, round_up(size_bytes, kExportPage), 0},
                       .op = abi::kMemoryExport,
                       .flags = O_RDWR | O_CLOEXEC};
  if (const int result = execute(*calls_, device_fd, args); result < 0) {
    return tl::make_unexpected(system_error(Stage::export_dmabuf,
                                            "ioctl(HL_MEM_OP_EXPORT_DMABUF_FD)", -result, card,
                                            Hint::export_refused));
  }
  return Fd(static_cast<std::int32_t>(args.word[0]));
}

}  // namespace hbmwire::memory::gaudi
