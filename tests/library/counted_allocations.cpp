// SPDX-License-Identifier: MIT
#include "counted_allocations.hpp"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

thread_local bool t_counting = false;
thread_local int t_allocations = 0;

}  // namespace

void* operator new(std::size_t size) {
  if (t_counting) ++t_allocations;
  void* const memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void operator delete(void* memory) noexcept { std::free(memory); }

void operator delete(void* memory, std::size_t /*size*/) noexcept { std::free(memory); }

namespace hbmwire::test {

CountedAllocations::CountedAllocations() noexcept {
  t_allocations = 0;
  t_counting = true;
}

CountedAllocations::~CountedAllocations() { stop(); }

int CountedAllocations::stop() noexcept {
  t_counting = false;
  return t_allocations;
}

}  // namespace hbmwire::test
