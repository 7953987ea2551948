// SPDX-License-Identifier: MIT
#include "emulation/common/fault_counters.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

namespace hbmwire::emulation {
namespace {

// <fabric>/faults: an open-addressing table.
constexpr std::size_t kCounterSlots = 1024;  // 16 plans of 64 rules each
static_assert(std::atomic<std::uint64_t>::is_always_lock_free,
              "the counters are shared between processes");
static_assert(sizeof(FaultCounter) == 24);

FaultCounter* map_table(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return nullptr;
  constexpr std::size_t kBytes = kCounterSlots * sizeof(FaultCounter);
  // Every process gives the file the same size, so it does not matter which is first.
  void* table = MAP_FAILED;
  if (::ftruncate(fd, kBytes) == 0)
    table = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  const int saved = errno;
  ::close(fd);
  errno = saved;
  return table == MAP_FAILED ? nullptr : static_cast<FaultCounter*>(table);
}

FaultCounter* find_counter(FaultCounter* table, std::uint64_t key) {
  for (std::size_t probe = 0; probe < kCounterSlots; ++probe) {
    FaultCounter& slot = table[(key + probe) % kCounterSlots];
    std::uint64_t present = 0;
    if (slot.key.compare_exchange_strong(present, key) || present == key) return &slot;
  }
  errno = ENOSPC;
  return nullptr;
}

}  // namespace

/// FNV-1a, because std::hash need not be the same in every shared object.
std::uint64_t fault_key(const FaultRule& rule, std::size_t repetition) {
  std::string text = rule.subject + ',' + rule.node;
  for (const std::uint64_t setting :
       {static_cast<std::uint64_t>(rule.action), static_cast<std::uint64_t>(rule.point), rule.nth,
        rule.every, rule.count, rule.chance, rule.seed, rule.byte,
        static_cast<std::uint64_t>(rule.error_number), rule.time_ns,
        static_cast<std::uint64_t>(repetition)}) {
    text += ',' + std::to_string(setting);
  }
  std::uint64_t hash = 0xcbf2'9ce4'8422'2325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100'0000'01b3;
  return hash == 0 ? 1 : hash;
}

std::vector<FaultCounter*> map_fault_counters(const std::filesystem::path& file,
                                              const std::vector<FaultRule>& rules) {
  FaultCounter* const table = map_table(file);
  std::vector<FaultCounter*> counters;
  for (std::size_t i = 0; table != nullptr && i < rules.size(); ++i) {
    const auto repetition =
        std::count(rules.begin(), rules.begin() + static_cast<std::ptrdiff_t>(i), rules[i]);
    FaultCounter* const counter =
        find_counter(table, fault_key(rules[i], static_cast<std::size_t>(repetition)));
    if (counter == nullptr) return {};
    counters.push_back(counter);
  }
  return counters;
}

}  // namespace hbmwire::emulation
