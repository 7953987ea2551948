// SPDX-License-Identifier: MIT
#include "emulated_rocm.hpp"
#include "memory_contract.hpp"

namespace hbmwire::test {
namespace {

ApplicationMemory by_hip(const Context& /*context*/, std::uint64_t size_bytes) {
  const Rocm rocm;
  void* const pointer = rocm.hip_malloc(0, size_bytes);
  return {.address = std::bit_cast<std::uint64_t>(pointer),
          .owner = {pointer, [rocm](void* memory) { rocm.hip_free(memory); }}};
}

MemorySubject rocm_gpu() {
  return {.name = "an AMD GPU",
          .type = MemoryType::rocm,
          .copy_engine = "ROCr DMA",
          .application_memory = by_hip,
          .libraries = {"nic", "rocm"}};
}

}  // namespace
}  // namespace hbmwire::test

HBMWIRE_MEMORY_SUBJECT(Rocm, rocm_gpu());
HBMWIRE_APPLICATION_MEMORY(Rocm, rocm_gpu());
