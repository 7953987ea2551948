// SPDX-License-Identifier: MIT
#include "raw_gaudi.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>

#include <bit>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "hbmwire/fd.hpp"

namespace hbmwire::test {

namespace abi = memory::gaudi::abi;

namespace {

constexpr std::uint64_t kPage = 2 << 20;  // of the virtual card
constexpr std::uint32_t kUserMemory = 4;  // HL_MEM_USERPTR

}  // namespace

RawGaudi::RawGaudi() : fd_(::open("/dev/accel/accel0", O_RDWR | O_CLOEXEC)) {
  if (!fd_) open_error_ = errno;
}

int RawGaudi::call(abi::MemoryArgs& args) {
  return ::ioctl(fd_.get(), abi::kMemory.now, &args) == 0 ? 0 : errno;
}

int RawGaudi::allocate(std::uint64_t size, std::uint64_t& handle, std::uint32_t flags) {
  abi::MemoryArgs args{.word = {size}, .op = abi::kMemoryAlloc, .flags = flags};
  const int error = call(args);
  handle = args.word[0];
  return error;
}

int RawGaudi::free(std::uint64_t handle) {
  abi::MemoryArgs args{.word = {handle}, .op = abi::kMemoryFree};
  return call(args);
}

int RawGaudi::map(std::uint64_t handle, std::uint64_t& address) {
  abi::MemoryArgs args{.word = {0, handle}, .op = abi::kMemoryMap};
  const int error = call(args);
  address = args.word[0];
  return error;
}

int RawGaudi::map_host(const void* memory, std::uint64_t size, std::uint64_t& address) {
  abi::MemoryArgs args{.word = {std::bit_cast<std::uintptr_t>(memory), 0, size},
                       .op = abi::kMemoryMap,
                       .flags = kUserMemory};
  const int error = call(args);
  address = args.word[0];
  return error;
}

int RawGaudi::unmap(std::uint64_t address) {
  abi::MemoryArgs args{.word = {address}, .op = abi::kMemoryUnmap};
  return call(args);
}

int RawGaudi::export_range(const Range& range, Fd& dmabuf) {
  return export_range(range, dmabuf, O_RDWR | O_CLOEXEC);
}

int RawGaudi::export_range(const Range& range, Fd& dmabuf, std::uint32_t flags) {
  abi::MemoryArgs args{
      .word = {range.address, range.size, range.offset}, .op = abi::kMemoryExport, .flags = flags};
  const int error = call(args);
  const auto fd = static_cast<std::int32_t>(args.word[0]);
  dmabuf = Fd(error == 0 ? fd : -1);
  // After a failure the answer must contain an error, too.
  return error != 0 && fd != -EBADF ? EPROTO : error;
}

int gaudi_info(int fd, std::uint32_t op, abi::HwIpInfo& info) {
  abi::InfoArgs args{.return_pointer = std::bit_cast<std::uintptr_t>(&info),
                     .return_size = sizeof(info),
                     .op = op};
  return ::ioctl(fd, abi::kInfo.now, &args) == 0 ? 0 : errno;
}

std::string gaudi_folder() {
  return std::filesystem::canonical("/sys/class/accel/accel0/device").string();
}

std::map<std::string, long> gaudi_counters() {
  std::map<std::string, long> counters;
  std::ifstream file(gaudi_folder() + "/counters");
  std::string name;
  for (long value = 0; file >> name >> value;) counters[name] = value;
  return counters;
}

std::int64_t bar_offset(std::uint64_t address) {
  std::ifstream file(gaudi_folder() + "/mappings");
  std::uint64_t page = 0;
  std::uint64_t offset = 0;
  file >> std::hex;
  // The numbers begin with 0x, which std::hex accepts.
  while (file >> page >> offset) {
    if (address >= page && address - page < kPage)
      return static_cast<std::int64_t>(offset + (address - page));
  }
  return -1;
}

void forbid_peer_to_peer(bool forbidden) {
  std::ofstream("/sys/module/virtual_gaudi/parameters/no_p2p") << (forbidden ? 1 : 0) << '\n';
}

}  // namespace hbmwire::test
