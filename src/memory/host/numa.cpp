// SPDX-License-Identifier: MIT
#include "memory/host/numa.hpp"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <string>

namespace hbmwire::memory::host {

namespace {

// The kernel's own limit (CONFIG_NODES_SHIFT is at most 10).
constexpr int kMostNodes = 1024;
constexpr int kBitsPerWord = 8 * sizeof(unsigned long);

/// Whether a list such as "0-1,4" contains the number.
bool list_has(std::string_view list, int number) {
  while (!list.empty()) {
    const std::string_view item = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), item.size() + 1));
    int first = -1;
    int last = -1;
    const char* const end = item.data() + item.size();
    const auto head = std::from_chars(item.data(), end, first);
    if (head.ec != std::errc{}) return false;
    last = first;
    if (head.ptr != end && *head.ptr == '-') std::from_chars(head.ptr + 1, end, last);
    if (first <= number && number <= last) return true;
  }
  return false;
}

}  // namespace

Result<void> check_node(int node) {
  if (node == -1) return {};  // any node
  std::string nodes;
  // If sysfs does not tell, mbind(2) finds out later.
  std::getline(std::ifstream("/sys/devices/system/node/has_memory"), nodes);
  const bool known = node >= 0 && node < kMostNodes && (nodes.empty() || list_has(nodes, node));
  if (known) return {};
  return tl::make_unexpected(make_error(Errc::not_found, Stage::open,
                                        "this machine has no NUMA node of this number with memory",
                                        "node " + std::to_string(node), Hint::no_such_numa_node));
}

Result<void> bind_to_node(void* memory, std::uint64_t size_bytes, int node,
                          std::string_view subject) {
  std::array<unsigned long, kMostNodes / kBitsPerWord> mask{};
  mask.at(static_cast<std::size_t>(node / kBitsPerWord)) = 1UL << (node % kBitsPerWord);
  // The kernel looks at one bit fewer than it is told (get_nodes() of mm/mempolicy.c).
  if (::syscall(SYS_mbind, memory, size_bytes, MPOL_BIND, mask.data(), kMostNodes + 1UL, 0U) == 0)
    return {};
  return tl::make_unexpected(
      system_error(Stage::allocate, "mbind", errno, subject, Hint::numa_refused));
}

}  // namespace hbmwire::memory::host
