// SPDX-License-Identifier: MIT

#include "cuda_application.hpp"
#include "memory_contract.hpp"

namespace hbmwire::test {
namespace {

/// Memory of an application that does not know hbmwire.
ApplicationMemory allocate(const Context& /*context*/, std::uint64_t size_bytes) {
  auto application = std::make_shared<CudaApplication>(0);
  const std::uint64_t address = application->allocate(size_bytes);
  return {address, std::move(application)};
}

MemorySubject cuda() {
  return {.name = "an NVIDIA GPU",
          .type = MemoryType::cuda,
          .copy_engine = "CUDA",
          .application_memory = allocate,
          .libraries = {"nic", "cuda"}};
}

}  // namespace
}  // namespace hbmwire::test

HBMWIRE_MEMORY_SUBJECT(Cuda, cuda());
HBMWIRE_APPLICATION_MEMORY(Cuda, cuda());
