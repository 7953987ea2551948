// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "memory/gaudi/habanalabs_abi.hpp"
#include "memory/gaudi/kernel_driver.hpp"

namespace hbmwire::memory::gaudi {

/// A driver habanalabs in this process, with the rules of the real one: mapped memory cannot be
/// freed, exported memory cannot be unmapped, and an export has whole pages and begins at the base
/// of a mapping. Its nodes are /dev/null, and its dma-bufs are memfds.
class FakeHabanalabs final : public DeviceCalls {
 public:
  static constexpr std::uint64_t kPage = 1 << 20;
  static constexpr std::uint64_t kDramBytes = 16 * kPage;
  static constexpr std::uint64_t kFirstAddress = 0x1001'0018'0000'0000;

  int open(const char* path) noexcept override;
  int ioctl(int fd, unsigned long request, void* argument) noexcept override;
  int close(int fd) noexcept override;

  /// The result of open() for a node: an errno, or 0 for success. Other nodes do not exist.
  std::map<std::string, int> nodes;
  bool is_before_6_7 = false;
  bool has_device_memory = true;  // as on the second generation
  std::uint64_t page_bytes = kPage;
  int interruptions = 0;  // number of next calls that signals interrupt

  /// Makes the n-th call from now on (0: the next) fail once with this errno; counts open, ioctl
  /// and close.
  void fail_nth(int n, int error_number) {
    fail_in_ = n;
    fail_with_ = error_number;
  }

  /// Whether the call that fail_nth() chose was not made yet.
  [[nodiscard]] bool is_failure_to_come() const { return fail_in_ >= 0; }

  std::set<int> open_fds;
  std::map<std::uint64_t, std::uint64_t> allocations;  // handle: bytes
  std::map<std::uint64_t, std::uint64_t> mappings;     // address: handle
  std::map<std::uint64_t, std::set<int>> exports;      // address: descriptors
  std::vector<abi::MemoryArgs> asked;                  // in order

 private:
  [[nodiscard]] bool fails_now() noexcept;
  int execute(abi::MemoryArgs& args);
  int export_fd(const abi::MemoryArgs& args);
  [[nodiscard]] bool is_exported(std::uint64_t address);

  int fail_in_ = -1;
  int fail_with_ = 0;
  std::uint64_t next_handle_ = 1;
};

}  // namespace hbmwire::memory::gaudi
