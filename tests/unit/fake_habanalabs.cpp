// SPDX-License-Identifier: MIT
#include "fake_habanalabs.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

namespace hbmwire::memory::gaudi {

namespace {

int fail(int error_number) noexcept {
  errno = error_number;
  return -1;
}

}  // namespace

bool FakeHabanalabs::fails_now() noexcept { return fail_in_ >= 0 && fail_in_-- == 0; }

int FakeHabanalabs::open(const char* path) noexcept {
  if (fails_now()) return fail(fail_with_);
  const auto node = nodes.find(path);
  if (node == nodes.end()) return fail(ENOENT);
  if (node->second != 0) return fail(node->second);
  const int fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  open_fds.insert(fd);
  return fd;
}

// Like close(2): the descriptor is released even if an error is returned.
int FakeHabanalabs::close(int fd) noexcept {
  if (open_fds.erase(fd) == 0) return fail(EBADF);
  ::close(fd);
  return fails_now() ? fail(fail_with_) : 0;
}

int FakeHabanalabs::ioctl(int fd, unsigned long request, void* argument) noexcept {
  const auto number = [&](const abi::Request& one) {
    return is_before_6_7 ? one.before_6_7 : one.now;
  };
  if (!open_fds.contains(fd)) return fail(EBADF);
  const bool is_information = request == number(abi::kInfo);
  if (!is_information && request != number(abi::kMemory)) return fail(ENOTTY);
  if (interruptions > 0) {
    --interruptions;
    // As if the driver had overwritten a part of the arguments before the signal came.
    std::memset(argument, 0, is_information ? sizeof(abi::InfoArgs) : sizeof(abi::MemoryArgs));
    return fail(EINTR);
  }
  if (fails_now()) return fail(fail_with_);
  if (!is_information) {
    const int error = execute(*static_cast<abi::MemoryArgs*>(argument));
    return error == 0 ? 0 : fail(error);
  }
  const auto& args = *static_cast<const abi::InfoArgs*>(argument);
  if (args.op != abi::kInfoHwIp || args.return_pointer == 0 || args.zero != 0) return fail(EINVAL);
  abi::HwIpInfo info{};
  info.device_id = 0x1020;
  info.dram_size = kDramBytes;
  info.dram_page_size = page_bytes;
  std::memcpy(std::bit_cast<void*>(args.return_pointer), &info,
              std::min<std::size_t>(sizeof(info), args.return_size));
  return 0;
}

bool FakeHabanalabs::is_exported(std::uint64_t address) {
  std::erase_if(exports[address], [](int fd) { return ::fcntl(fd, F_GETFD) < 0; });
  return !exports[address].empty();
}

int FakeHabanalabs::export_fd(const abi::MemoryArgs& args) {
  const auto [address, size, offset] = args.word;
  if (args.flags != (O_RDWR | O_CLOEXEC) || !mappings.contains(address) || size == 0 ||
      (size | offset) % 4096 != 0 || offset + size > allocations.at(mappings.at(address))) {
    return -1;
  }
  const int fd = ::memfd_create("dma-buf", MFD_CLOEXEC);
  exports[address].insert(fd);
  return fd;
}

int FakeHabanalabs::execute(abi::MemoryArgs& args) {
  const abi::MemoryArgs in = args;
  asked.push_back(in);
  args = {};
  std::uint64_t used = 0;
  for (const auto& [handle, bytes] : allocations) used += bytes;
  switch (in.op) {
    case abi::kMemoryAlloc: {
      if (in.word[0] == 0) return EINVAL;
      if (!has_device_memory) return 0;  // with the handle 0
      const std::uint64_t bytes = round_up(in.word[0], kPage);
      if (bytes > kDramBytes - used) return ENOMEM;
      allocations[next_handle_] = bytes;
      args.word[0] = next_handle_++;
      return 0;
    }
    case abi::kMemoryFree: {
      const bool is_mapped =
          std::ranges::any_of(mappings, [&](const auto& one) { return one.second == in.word[0]; });
      return is_mapped || allocations.erase(in.word[0]) == 0 ? EINVAL : 0;
    }
    case abi::kMemoryMap: {
      if (!allocations.contains(in.word[1])) return EINVAL;
      std::uint64_t address = kFirstAddress;
      for (const auto& [at, handle] : mappings) address = at + allocations.at(handle);
      mappings[address] = in.word[1];
      args.word[0] = address;
      return 0;
    }
    case abi::kMemoryUnmap:
      return is_exported(in.word[0]) || mappings.erase(in.word[0]) == 0 ? EINVAL : 0;
    case abi::kMemoryExport: {
      const int fd = export_fd(in);
      args.word[0] = static_cast<std::uint32_t>(fd < 0 ? -EBADF : fd);
      return fd < 0 ? EINVAL : 0;
    }
    default:
      return EINVAL;
  }
}

}  // namespace hbmwire::memory::gaudi
