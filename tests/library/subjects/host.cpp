// SPDX-License-Identifier: MIT
#include <bit>
#include <memory>
#include <vector>

#include "hbmwire/memory_domain.hpp"

#include "memory_contract.hpp"

namespace hbmwire::test {
namespace {

/// Not page-aligned, like memory of an application.
ApplicationMemory from_heap(const Context& /*context*/, std::uint64_t size_bytes) {
  auto bytes = std::make_shared<std::vector<std::byte>>(size_bytes + 1);
  return {.address = std::bit_cast<std::uint64_t>(bytes->data() + 1), .owner = bytes};
}

MemorySubject host() {
  return {.name = "anonymous pages",
          .exports = false,
          .copy_engine = "CPU",
          .application_memory = from_heap,
          .application_lifetime = Lifetime::address_space,
          .takes_advice = true,
          .libraries = {"nic"}};
}

/// A memfd, which other processes could map.
MemorySubject shared() {
  return {.name = "shared memory",
          .options = {.device = {}, .host = {.shared = true}},
          .exports = false,
          .copy_engine = "CPU",
          .takes_advice = true,
          .libraries = {"nic"}};
}

}  // namespace
}  // namespace hbmwire::test

HBMWIRE_MEMORY_SUBJECT(Host, host());
HBMWIRE_MEMORY_SUBJECT(Shared, shared());
HBMWIRE_APPLICATION_MEMORY(Host, host());
