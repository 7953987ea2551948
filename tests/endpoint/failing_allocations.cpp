// SPDX-License-Identifier: MIT
#include "failing_allocations.hpp"

#include <link.h>
#include <unwind.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>

extern "C" const char __executable_start;  // NOLINT(bugprone-reserved-identifier): of the linker
extern "C" const char etext;

namespace hbmwire::test {
namespace {

constexpr long kNever = std::numeric_limits<long>::max();

constinit std::atomic<bool> armed{false};
constinit std::atomic<bool> lasts{false};  // whether all later allocations fail, too
constinit std::atomic<bool> has_failed{false};
constinit std::atomic<long> counted{0};
constinit std::atomic<long> fails_at{kNever};
constinit std::atomic<std::int64_t> alive{0};

struct Code {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;

  [[nodiscard]] bool holds(std::uintptr_t address) const noexcept {
    return address >= begin && address < end;
  }
};

Code own_code() noexcept {
  return {reinterpret_cast<std::uintptr_t>(&__executable_start),
          reinterpret_cast<std::uintptr_t>(&etext)};
}

/// Libraries that allocate on behalf of their callers.
struct Helpers {
  std::array<Code, 16> code;
  std::size_t count = 0;
};

int add_helper(dl_phdr_info* info, std::size_t /*size*/, void* data) {
  auto& helpers = *static_cast<Helpers*>(data);
  bool helps = false;
  for (const char* const name : {"libstdc++.so", "libfmt.so", "libc.so", "libgcc_s.so"})
    helps = helps || std::strstr(info->dlpi_name, name) != nullptr;
  for (int i = 0; helps && i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = info->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0 ||
        helpers.count == helpers.code.size())
      continue;
    const std::uintptr_t begin = info->dlpi_addr + part.p_vaddr;
    helpers.code.at(helpers.count++) = {begin, begin + part.p_memsz};
  }
  return 0;
}

const Helpers& helpers() noexcept {
  static const Helpers known = [] {
    Helpers found;
    dl_iterate_phdr(add_helper, &found);
    return found;
  }();
  return known;
}

bool is_helpers(std::uintptr_t address) noexcept {
  const Helpers& known = helpers();
  for (std::size_t i = 0; i < known.count; ++i) {
    if (known.code.at(i).holds(address)) return true;
  }
  return false;
}

/// Stores the first address on the stack outside the helpers.
_Unwind_Reason_Code look_at(_Unwind_Context* frame, void* data) {
  const std::uintptr_t address = _Unwind_GetIP(frame);
  if (is_helpers(address)) return _URC_NO_REASON;
  *static_cast<std::uintptr_t*>(data) = address;
  return _URC_NORMAL_STOP;
}

/// Whether the code that needs the memory belongs to the library. Skips helper libraries on the
/// stack.
bool is_own(std::uintptr_t caller) noexcept {
  if (own_code().holds(caller)) return true;
  if (!is_helpers(caller)) return false;

  // This file's own functions come first on the stack, before the first helper.
  struct Walk {
    std::uintptr_t found = 0;
    bool passed = false;
  } walk;

  const auto step = [](_Unwind_Context* frame, void* data) {
    auto& at = *static_cast<Walk*>(data);
    const std::uintptr_t address = _Unwind_GetIP(frame);
    if (!at.passed) {
      at.passed = is_helpers(address);
      return _URC_NO_REASON;
    }
    return look_at(frame, &at.found);
  };
  _Unwind_Backtrace(step, &walk);
  return own_code().holds(walk.found);
}

bool fails(std::uintptr_t caller) noexcept {
  if (!armed.load(std::memory_order_relaxed) || !is_own(caller)) return false;
  const long number = counted.fetch_add(1, std::memory_order_relaxed) + 1;
  const long at = fails_at.load(std::memory_order_relaxed);
  const bool hit = number == at || (number > at && lasts.load(std::memory_order_relaxed));
  if (hit) has_failed.store(true, std::memory_order_relaxed);
  return hit;
}

void* allocate(std::size_t size, std::size_t alignment, std::uintptr_t caller) {
  void* const memory =
      fails(caller) ? nullptr
      : alignment <= alignof(std::max_align_t)
          ? std::malloc(size == 0 ? 1 : size)  // NOLINT: operator new is built from these
          : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  alive.fetch_add(1, std::memory_order_relaxed);
  return memory;
}

void give_back(void* memory) noexcept {
  if (memory == nullptr) return;
  alive.fetch_sub(1, std::memory_order_relaxed);
  std::free(memory);  // NOLINT: as above
}

}  // namespace

void FailingAllocations::arm(long nth, bool for_good) noexcept {
  // Makes the list before anything is counted.
  helpers();
  counted = 0;
  has_failed = false;
  lasts = for_good;
  fails_at = nth;
  armed = true;
}

long FailingAllocations::disarm() noexcept {
  armed = false;
  return counted;
}

bool FailingAllocations::failed() noexcept { return has_failed; }

std::int64_t FailingAllocations::live() noexcept { return alive; }

}  // namespace hbmwire::test

#define CALLER reinterpret_cast<std::uintptr_t>(__builtin_return_address(0))

void* operator new(std::size_t size) { return hbmwire::test::allocate(size, 1, CALLER); }

void* operator new[](std::size_t size) { return hbmwire::test::allocate(size, 1, CALLER); }

void* operator new(std::size_t size, std::align_val_t alignment) {
  return hbmwire::test::allocate(size, static_cast<std::size_t>(alignment), CALLER);
}

void* operator new[](std::size_t size, std::align_val_t alignment) {
  return hbmwire::test::allocate(size, static_cast<std::size_t>(alignment), CALLER);
}

void operator delete(void* memory) noexcept { hbmwire::test::give_back(memory); }

void operator delete[](void* memory) noexcept { hbmwire::test::give_back(memory); }

void operator delete(void* memory, std::size_t /*size*/) noexcept {
  hbmwire::test::give_back(memory);
}

void operator delete[](void* memory, std::size_t /*size*/) noexcept {
  hbmwire::test::give_back(memory);
}

void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept {
  hbmwire::test::give_back(memory);
}

void operator delete[](void* memory, std::align_val_t /*alignment*/) noexcept {
  hbmwire::test::give_back(memory);
}

void operator delete(void* memory, std::size_t /*size*/, std::align_val_t /*alignment*/) noexcept {
  hbmwire::test::give_back(memory);
}

void operator delete[](void* memory, std::size_t /*size*/,
                       std::align_val_t /*alignment*/) noexcept {
  hbmwire::test::give_back(memory);
}
